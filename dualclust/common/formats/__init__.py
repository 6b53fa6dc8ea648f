"""Files of embeddings: what each is, and its rows, a block at a time.

`open_rows` finds the reader of a file by the end of its name, after `kinds` has looked at the first
bytes: a file that is something else is refused with what it is. A reader returns one of two things
(`rows`). Rows that lie in the file as plain numbers are read in place (`plain`). All others are a
stream of batches, copied once into a temporary file of plain rows (`copies`), because clustering
takes many passes and rows by their ids.

`npy` reads .npy and raw numbers, `npz` archives, `tensors` .pt and .safetensors, `parquet_arrow`
Parquet and Arrow, `delimited` tables in text (`text_layout` says how they are divided), `words`
GloVe and word2vec, `hdf5` HDF5, `vectors` .fvecs and .fbin; `sparse` lays out sparse matrices,
`shards` joins the files of a folder. No reader loads a pickle, and pyarrow, h5py and torch are
loaded when a file needs them. The commands ``cluster``, ``assign`` and ``train`` read by these.
"""

from .registry import SUFFIXES, default_folder, file_of, look_at, open_ids, open_rows
from .rows import Ids, Rows, Selection

__all__ = [
    "SUFFIXES",
    "Ids",
    "Rows",
    "Selection",
    "default_folder",
    "file_of",
    "look_at",
    "open_ids",
    "open_rows",
]
