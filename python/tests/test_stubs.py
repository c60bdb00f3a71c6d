"""The stubs name the functions that exist, with their arguments."""

import ast
import importlib
import inspect
from pathlib import Path

import faltung
import pytest

FOLDER = Path(faltung.__file__).parent
FUNCTIONS = [
    (stub.stem, node)
    for stub in sorted(FOLDER.glob("*.pyi"))
    for node in ast.parse(stub.read_text()).body
    if isinstance(node, ast.FunctionDef)
]


def module_of(stub):
    """The module that a stub describes."""
    if stub == "dask":
        pytest.importorskip("dask.array")
    return faltung if stub == "__init__" else importlib.import_module(f"faltung.{stub}")


def arguments(node):
    """Kind, name and default of each argument of a stub."""
    of, kinds = node.args, inspect.Parameter
    plain = [None] * (len(of.args) - len(of.defaults)) + of.defaults
    named = [(kinds.POSITIONAL_OR_KEYWORD, a, value) for a, value in zip(of.args, plain)]
    named += [(kinds.KEYWORD_ONLY, a, value) for a, value in zip(of.kwonlyargs, of.kw_defaults)]
    found = [(kind, a.arg, inspect.Parameter.empty if v is None else ast.literal_eval(v)) for kind, a, v in named]
    return found + ([(kinds.VAR_KEYWORD, of.kwarg.arg, kinds.empty)] if of.kwarg else [])


@pytest.mark.parametrize("module, node", FUNCTIONS, ids=[f"{module}.{node.name}" for module, node in FUNCTIONS])
def test_arguments(module, node):
    module = module_of(module)
    parameters = inspect.signature(getattr(module, node.name)).parameters.values()
    found = [(p.kind, p.name, p.default) for p in parameters]
    # The functions of `ndimage` are wrapped: what they take as `accuracy` comes in as `_exact`.
    found = [(kind, "accuracy", None) if name == "_exact" else (kind, name, value) for kind, name, value in found]
    assert found == arguments(node)


@pytest.mark.parametrize("name", ["Device", "DeviceArray"])
def test_attributes_of_classes(name):
    nodes = ast.parse((FOLDER / "__init__.pyi").read_text()).body
    (stub,) = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name]
    stubbed = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)} - {"__init__"}
    own = {attribute for attribute in vars(getattr(faltung, name)) if not attribute.startswith("_")}
    assert own == {attribute for attribute in stubbed if not attribute.startswith("_")}
    assert all(hasattr(getattr(faltung, name), attribute) for attribute in stubbed)


def stubbed_names(stub):
    """The public names that a stub has, without those of its imports."""
    names = set()
    for node in ast.parse((FOLDER / f"{stub}.pyi").read_text()).body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets}
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif hasattr(node, "name"):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("stub", ["__init__", "ndimage", "dask"])
def test_public_names_have_stubs(stub):
    module = module_of(stub)
    public = set(module.__all__) - {"ndimage", "__version__"}
    if stub == "__init__":
        public |= {name for name, value in vars(faltung).items() if callable(value) and not name.startswith("_")}
    assert public == stubbed_names(stub)


CALLS = """
import numpy as np
import faltung
import faltung.dask
from faltung import ndimage

image = np.zeros((4, 4), np.uint8)
faltung.filter2D(image, float, [[1.0]], anchor=None)
faltung.filter2D(image, np.float32, [[1.0]], anchor=(0, 0))
faltung.sepFilter2D(image, -1, [1.0], [1.0], None, None)
faltung.blur(image, [3, 3], anchor=None)
ndimage.gaussian_filter(image, 1.0, radius=[None, 1], mode=["wrap", "mirror"])
ndimage.uniform_filter(image, (3.0, 2))
ndimage.correlate(image, [[1.0]], mode="wrap")
faltung.dask.gaussian_filter(image, 1.0, radius=[None, 1])
faltung.dask.convolve(image, [[1.0]], mode="wrap")
"""

REFUSED = [
    "from faltung import Array",
    "from faltung.ndimage import Modes",
    "from faltung.dask import Image",
    "from faltung import ndimage; ndimage.correlate([[1.0]], [[1.0]], mode=['wrap', 'wrap'])",
    "import faltung.dask as d; d.convolve([[1.0]], [[1.0]], mode=['wrap', 'wrap'])",
    "import faltung.dask as d; d.gaussian_filter([[1.0]])",
    "import faltung; faltung.blur([[1]], 'a')",
]


def test_a_type_checker_takes_calls(tmp_path):
    api = pytest.importorskip("mypy.api")
    # An installed package is found without a path, and mypy refuses the path of its folder.
    path = "" if FOLDER.parent.name == "site-packages" else f"mypy_path = {FOLDER.parent}"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n{path}\ncache_dir = {tmp_path / 'cache'}\n")
    files = {"calls": CALLS} | {f"refused_{number}": text for number, text in enumerate(REFUSED)}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    paths = [str(tmp_path / f"{name}.py") for name in files]
    text, errors, _ = api.run(["--strict", "--config-file", str(tmp_path / "mypy.ini"), *paths])
    assert not errors
    assert "calls.py" not in text and ".pyi" not in text, text
    for number in range(len(REFUSED)):
        assert f"refused_{number}.py:1: error" in text, text
