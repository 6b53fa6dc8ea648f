"""HDF5, tensors, and folders of shards."""

from __future__ import annotations

import numpy as np

from tests.cluster.mistakes.written import (
    Case,
    Trap,
    X,
    changed,
    cut,
    entry,
    hdf5,
    packed_hdf5,
    safetensors,
    shards,
    spoiled,
    tensors,
    two_kinds,
)

CASES = {
    "h5-two": Case(
        hdf5(a=X, b=X),
        "X.h5",
        "X.h5 holds 2 data sets. Only one can be clustered, and 2 have the shape (n, "
        "d): 'a' (float32, 40 x 3); 'b' (float32, 40 x 3). To fix this, name one: "
        "X.h5:a, or --array a",
    ),
    "h5-missing": Case(
        hdf5(a=X),
        "X.h5:c/d",
        "X.h5 has no data set 'c/d'. It holds 'a' (float32, 40 x 3). To fix this, name "
        "one of these with --array, or as X.h5:a",
    ),
    "h5-text": Case(
        hdf5(a=["x", "y"]),
        "X.h5",
        "X.h5:a holds text or lists of several lengths. Embeddings are real numbers, in"
        " rows of one length. To fix this, write a data set of shape (n, d): file['X'] "
        "= np.stack(rows)",
    ),
    "h5-one-axis": Case(
        hdf5(a=X[:, 0]),
        "X.h5",
        "X.h5:a has the shape (40,). Embeddings have the shape (n, d), with at least "
        "one row and one column. To fix this, save it as x.reshape(-1, d), or as x[:, "
        "None] if each row is one number",
    ),
    "h5-cut": Case(
        cut(hdf5(a=X), "X.h5", 0.7),
        "X.h5",
        "X.h5 cannot be read (*). An HDF5 file must be whole, and packed by a filter "
        "that h5py has. To fix this, write or copy it again",
    ),
    "h5-complex": Case(
        hdf5(a=X.astype(complex)),
        "X.h5",
        "X.h5:a holds complex numbers (complex128). Embeddings are real numbers. To fix"
        " this, save real and imaginary parts as columns: np.concatenate([x.real, "
        "x.imag], axis=1)",
    ),
    "h5-records": Case(
        hdf5(a=np.zeros(9, [("a", "f4")])),
        "X.h5",
        "X.h5:a holds records with the fields 'a'. Embeddings are real numbers. To fix "
        "this, save the fields as columns: "
        "np.stack([x[f] for f in x.dtype.names], axis=1)",
    ),
    "h5-spoiled": Case(
        spoiled(packed_hdf5, "X.h5", 0.6),
        "X.h5",
        "X.h5 cannot be read (*). An HDF5 file must be whole, and packed by a filter "
        "that h5py has. To fix this, write or copy it again",
    ),
    "h5-empty": Case(
        hdf5(),
        "X.h5",
        "X.h5 holds no data set. It must hold one data set of shape (n, d). To fix "
        "this, look at the program that wrote it",
    ),
    "pt-object": Case(
        tensors(lambda t: {"x": t.ones(3, 2), "o": Trap()}),
        "X.pt",
        "X.pt holds Python objects other than tensors, which could run code when "
        "loaded. A PyTorch file must hold a tensor, or dictionaries and lists of "
        "tensors. To fix this, save the tensor alone: torch.save({'X': x}, path)",
    ),
    "pt-old": Case(
        tensors(lambda t: t.ones(3, 2), _use_new_zipfile_serialization=False),
        "X.pt",
        "X.pt is a PyTorch file of the form before version 1.6, which is a bare pickle."
        " A file whose name ends in .pt must be a PyTorch file. To fix this, load it "
        "with torch.load(path, weights_only=True) and save it again with torch.save",
    ),
    "pt-two": Case(
        tensors(lambda t: {"a": t.ones(3, 2), "m": {"b": t.ones(3, 2)}}),
        "X.pt",
        "X.pt holds 2 tensors. Only one can be clustered, and 2 have the shape (n, d): "
        "'a' (float32, 3 x 2); 'm.b' (float32, 3 x 2). To fix this, name one: X.pt:a, "
        "or --array a",
    ),
    "pt-none": Case(
        tensors(lambda t: {"a": 3}),
        "X.pt",
        "X.pt holds no tensor. It must hold one tensor of shape (n, d). To fix this, "
        "look at the program that wrote it",
    ),
    "pt-view": Case(
        tensors(lambda t: t.ones(9, 8)[:, ::2]),
        "X.pt",
        "X.pt holds a view of a larger tensor (strides (8, 2)). The rows of a tensor "
        "must lie one after the other. To fix this, save a copy that does: "
        "torch.save(x.contiguous(), path)",
    ),
    "pt-cut": Case(
        cut(tensors(lambda t: t.ones(9, 8)), "X.pt", 0.7),
        "X.pt",
        "X.pt is the beginning of a zip archive (.npz, .pt) whose end is missing or "
        "damaged. A file whose name ends in .pt must be a PyTorch file. To fix this, "
        "write or copy it again",
    ),
    "pt-float8": Case(
        tensors(lambda t: t.ones(9, 8).to(t.float8_e4m3fn)),
        "X.pt",
        "X.pt holds numbers of type float8_e4m3fn. Embeddings are real numbers of a "
        "type that NumPy has, or bfloat16. To fix this, save them as another type: "
        "x.to(torch.float16)",
    ),
    "st-cut": Case(
        safetensors({"x": entry([40, 3])}, X.tobytes()[:-9]),
        "X.safetensors",
        "X.safetensors is damaged or cut off (its tensors declare 480 bytes, and 471 are there). "
        "It begins with the length of a header, which names its tensors. To fix this, write or "
        "copy the file again",
    ),
    "st-cut-header": Case(
        safetensors({"x": entry([40, 3])}, length=10**6),
        "X.safetensors",
        "X.safetensors is cut off within its header. It begins with the length of a "
        "header, which names its tensors. To fix this, write or copy the file again",
    ),
    "st-damaged": Case(
        safetensors(b"{x: 3}", X.tobytes()),
        "X.safetensors",
        "X.safetensors is damaged or cut off (*). It begins with the length of a header, "
        "which names its tensors. To fix this, write or copy the file again",
    ),
    "st-negative": Case(
        safetensors({"x": entry([-40, -3])}, X.tobytes()),
        "X.safetensors",
        "X.safetensors is damaged or cut off (its tensor 'x' has a shape or offsets that are no "
        "whole numbers). It begins with the length of a header, which names its tensors. To fix "
        "this, write or copy the file again",
    ),
    "st-float8": Case(
        safetensors({"x": entry([40, 3], "F8_E4M3", 120)}, X.tobytes()[:120]),
        "X.safetensors",
        "X.safetensors:x holds numbers of type F8_E4M3. Embeddings are real numbers of "
        "a type that NumPy has, or bfloat16. To fix this, save them as another type: "
        "x.to(torch.float16)",
    ),
    "st-missing": Case(
        safetensors({"x": entry([40, 3])}, X.tobytes()),
        "X.safetensors:y",
        "X.safetensors has no tensor 'y'. It holds 'x' (F32, 40 x 3). To fix this, name"
        " one of these with --array, or as X.safetensors:x",
    ),
    "sh-widths": Case(
        shards(a=X, b=X[:, :2]),
        "in",
        "in has rows of 3 numbers in in/a.npy, and of 2 in in/b.npy. All shards must "
        "have rows of the same length. To fix this, give the files of one model only",
    ),
    "sh-kinds": Case(
        two_kinds,
        "in",
        "in has files of 2 kinds. Shards are files of one format, and here are 'a.npy',"
        " 'notes.txt'. To fix this, name those you mean by a pattern in quotes: "
        "'in/*.npy'",
    ),
    "sh-none": Case(
        shards(),
        "in",
        "in is a folder without files. Shards are files of one format. To fix this, "
        "look at the path",
        66,
    ),
    "sh-nan": Case(
        shards(a1=X, a2=changed(3, 0, np.nan), a10=X),
        "in",
        "in holds NaN or infinity in row 43 (row 3 of in/a2.npy). Embeddings are finite "
        "numbers. To fix this, drop these rows (--invalid drop), or look at the program that "
        "wrote them",
    ),
    "sh-glob": Case(
        shards(),
        "in/*.npy",
        "in/*.npy matches no file. Shards are files of one format. To fix this, look at the path",
        66,
    ),
    "sh-zarr": Case(
        lambda f: ((f / "X.zarr").mkdir(), (f / "X.zarr" / "zarr.json").write_text("{}")),
        "X.zarr",
        "X.zarr is a Zarr store, which is not read. These formats are read: .npy, .npz, "
        ".parquet, .arrow, .csv, .pt, .safetensors, .h5, .fvecs, .fbin, .w2v. To fix this, "
        "write it as .npy, or as HDF5, a block at a time",
    ),
}
