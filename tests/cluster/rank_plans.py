"""What happens to ranks in the tests: lines that a rank runs before the command begins.

They see what `test_ranks.FORK` has imported, and `rank`.
"""

FAIL = """
from dualclust.algos.core.errors import OutputError
def fail(*arguments, **options):
    raise {error}
if rank == {rank}:
    cluster_command.{where} = fail
"""

LOST = """
def lost(*arguments, **options):
    {what}
if rank == 1:
    cluster_command.drawn_centers = lost
"""

# Dies in the middle of the work: before the exchange, or the read of rows, of this number.
KILLED = """
from dualclust.common.formats.plain import PlainRows
from dualclust.common.ranks import Ranks
joined, read, steps = Ranks.join, PlainRows.rows, []
def counted(plain):
    def call(self, *arguments):
        steps.append(plain)
        if rank == 1 and len(steps) == {at}:
            os.kill(os.getpid(), 9)
        return plain(self, *arguments)
    return call
Ranks.join, PlainRows.rows = counted(joined), counted(read)
"""

# Far from its next exchange when another dies: only the watch can end it.
BUSY = """
from dualclust.common import watch
watch.GRACE = 0.5
def start(*arguments, **options):
    if rank == 1:
        os.kill(os.getpid(), 9)
    time.sleep(3600)
cluster_command.drawn_centers = start
"""

# Ranks that are only slow have joined before the clock starts. The second says nothing until the
# first has given up, however long that takes.
HUNG = """
from datetime import timedelta
from dualclust.common import watch
watch.GRACE = 0.5
from torch.distributed.distributed_c10d import _set_pg_timeout
started = cluster_command.drawn_centers
def hang(*arguments, **options):
    if rank == 1:
        while not os.path.getsize("err0"):
            time.sleep(0.05)
        raise ZeroDivisionError
    _set_pg_timeout(timedelta(seconds=1))
    return started(*arguments, **options)
cluster_command.drawn_centers = hang
"""

# Listens where the second rank looks for the first, and never answers: PyTorch waits without limit.
STRANGER = """
import socket
from dualclust.common import ranks
ranks.GRACE = 0.5
if rank == 1:
    ranks.stranger = socket.create_server(("127.0.0.1", 0))
    os.environ["MASTER_PORT"] = str(ranks.stranger.getsockname()[1])
"""
