"""What the command and training share: files that are written completely, and several processes.

`files` writes a file or a folder so that whatever stops the process, a name on the disk stands for
complete content. `ranks` says which processes work on one problem, shards rows over them and joins
what they computed. It imports the errors of `dualclust.algos.core` and nothing else of ours.
"""

from .files import write_file, write_folder
from .ranks import RankLostError, Ranks, join_ranks

__all__ = ["RankLostError", "Ranks", "join_ranks", "write_file", "write_folder"]
