"""Mistakes with files."""

from __future__ import annotations

from polygrad.errors import ArgumentError, BundleError, FileMissing, FormatError, ShapeError

from .mistake import Chapter, Mistake

PRELUDE = """\
model = Model(nn.Linear(2, 1), inputs={"x": (1, 2)})
bundle = model.save()
"""

MISTAKES = (
    Mistake(
        "a file that is not there",
        'Model.load("of-nobody.pgb")',
        FileMissing,
        "there is no file 'of-nobody.pgb'.",
    ),
    Mistake(
        "a path with a NUL",
        'Model.load("a\\0b")',
        ArgumentError,
        "'a\\x00b' is no path: embedded null byte.",
    ),
    Mistake(
        "the same for writing",
        'model.save("a\\0b")',
        ArgumentError,
        "'a\\x00b' is no path: embedded null byte.",
        "bundle = model.save()",
    ),
    Mistake(
        "a folder",
        'Model.load("/")',
        FormatError,
        "/: is a folder, not a file.",
    ),
    Mistake(
        "no file",
        "Model.load(5)",
        ArgumentError,
        "a file is a path or bytes, not int.",
        "Model.load(bundle)",
    ),
    Mistake(
        "an empty file",
        'Model.load(b"")',
        BundleError,
        "<bytes>: is empty. Expected a polygrad bundle (.pgb); it was probably cut short while"
        " being written or downloaded (offset 0)",
        "Model.load(bundle)",
    ),
    Mistake(
        "a web page",
        'Model.load(b"<!DOCTYPE html><html><body>404</body></html>")',
        BundleError,
        "<bytes>: is an HTML or XML page, not the file itself. Expected a polygrad bundle"
        " (.pgb); the download was answered by a web page (offset 0)",
    ),
    Mistake(
        "a Git LFS pointer",
        """\
pointer = b"version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a\\nsize 12345\\n"
Model.load(pointer)
""",
        BundleError,
        "<bytes>: is a Git LFS pointer, not the file itself. Expected a polygrad bundle (.pgb);"
        " run `git lfs pull` in its repository (offset 0)",
    ),
    Mistake(
        "no ZIP",
        'Model.load(b"hello world")',
        BundleError,
        "<bytes>: is not a polygrad bundle (.pgb): it starts with the bytes 68 65 6c 6c 6f 20 77"
        " 6f (offset 0)",
    ),
    Mistake(
        "a ZIP of somebody else",
        """\
import io, zipfile

other = io.BytesIO()
with zipfile.ZipFile(other, "w") as archive:
    archive.writestr("hello.txt", "world")
Model.load(other.getvalue())
""",
        BundleError,
        "<bytes>: is a ZIP archive that polygrad did not write (offset 99)",
    ),
    Mistake(
        "a pickle",
        """\
import pickle

Model.load(pickle.dumps([1.0]))
""",
        BundleError,
        "<bytes>: is a Python pickle. Expected a polygrad bundle (.pgb) (offset 0)",
    ),
    Mistake(
        "a safetensors file",
        "Model.load(model.export_weights())",
        BundleError,
        "<bytes>: is a safetensors file. Expected a polygrad bundle (.pgb); read it with"
        " nn.state.safe_load (offset 0)",
        "model.import_weights(model.export_weights())",
    ),
    Mistake(
        "a file cut short",
        "Model.load(bundle[:-1])",
        BundleError,
        "<bytes>: the file ends inside its end record: truncated (offset 1826)",
        "Model.load(bundle)",
    ),
    Mistake(
        "half a file",
        "Model.load(bundle[: len(bundle) // 2])",
        BundleError,
        "<bytes>: the file ends before its directory does: truncated (offset 913)",
        "Model.load(bundle)",
    ),
    Mistake(
        "a file with something behind it",
        'Model.load(bundle + b"!")',
        BundleError,
        "<bytes>: 1 bytes stand behind the end of the bundle (offset 1827)",
        "Model.load(bundle)",
    ),
    Mistake(
        "weights of another file type",
        'model.import_weights(b"hello world")',
        FormatError,
        "<bytes>: is not a safetensors file: it starts with the bytes 68 65 6c 6c 6f 20 77 6f"
        " (offset 0)",
        "model.import_weights(model.export_weights())",
    ),
    Mistake(
        "weights cut short",
        "model.import_weights(model.export_weights()[:-1])",
        FormatError,
        "<bytes>: the arrays end at byte 140, the data at 139: truncated (offset 139)",
        "model.import_weights(model.export_weights())",
    ),
    Mistake(
        "weights of another model",
        """\
other = Model(nn.Linear(3, 1), inputs={"x": (1, 3)}).export_weights()
model.import_weights(other)
""",
        ShapeError,
        "import_weights: 'weight' is declared float32[1, 2], got shape (1, 3).",
    ),
    Mistake(
        "a folder that is not there",
        'model.save("/no/such/folder/model.pgb")',
        FileMissing,
        "there is no such folder: '/no/such/folder'.",
    ),
    Mistake(
        "a path that is none",
        "model.save(5)",
        ArgumentError,
        "save: path is a text, a path or None, not 5.",
    ),
    Mistake(
        "a bundle as weights",
        "nn.safe_load(bundle)",
        FormatError,
        "<bytes>: is a ZIP archive. Expected a safetensors file (offset 0)",
        "Model.load(bundle)",
    ),
    Mistake(
        "an archive that is none",
        'nn.state.zip_extract(b"no archive")',
        FormatError,
        "<bytes>: is no readable ZIP archive: File is not a zip file.",
    ),
    Mistake(
        "an archive that was cut short",
        'nn.state.tar_extract(b"")',
        FormatError,
        "<bytes>: is no readable tar archive: empty file.",
    ),
)

CHAPTER = Chapter(
    "Files",
    "A file is checked whole before anything of it is used. The message names the file and the"
    " byte.",
    MISTAKES,
    PRELUDE,
)
