"""What the command and training share: complete files, several processes, devices, and plotting.

`files` writes a file or a folder so that whatever stops the process, a name on the disk stands for
complete content. `ranks` says which processes work on one problem, shards rows over them and joins
what they computed. `devices` knows what kinds of devices differ in, and `plotting` has the colors,
pages and axes of pictures. They import the errors of `dualclust.algos.core` and nothing else of
ours; torch and matplotlib are loaded on first use.
"""

from .files import write_file, write_folder
from .ranks import RankLostError, Ranks, join_ranks

__all__ = ["RankLostError", "Ranks", "join_ranks", "write_file", "write_folder"]
