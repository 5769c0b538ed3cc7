"""A module of WGSL from the text of a kernel in the C of dialect/webgpu.h: its functions, buffers and local arrays."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast
from pycparser.c_parser import CParser, ParseError

from .body import ROLLED, UNROLL, Body, assigned
from .expressions import OF_HALVES, OF_SUBGROUP
from .memory_access import PointerVariable, Variable
from .pointer_structures import spread
from .values import INT, TYPES, Address, Memory, NotInWgsl, Type, Value, convert, safe

Node = Any

LACKING = {
    r"\basm\b": "PTX in the text",
    r"\bconstant_memory\b": "pointers to constant memory",
    r"\bimage_of_shorts\b": "images of 16-bit integers",
    r"\bstruct \w+ \{[^}]*\*": "structures of pointers",
    r"\b(int|short|u?char)(8|16)\b": "vectors of eight or sixteen integers",
    r"\bdouble\b": "numbers of 64 bits",
    r"\b__ldc[ag]\b": "loads that name a cache",
}
"""Words of a text that WGSL has nothing for -> the reason for a reader."""
EXTENSIONS = {"f16": "f16", "subgroup": "subgroups"}
"""Word in a module -> extension of WGSL that it needs."""
_OF_HALVES = re.compile(rf"^[^\n;{{}}]*\b({'|'.join(OF_HALVES)})\([^)]*\) \{{.*?\}}[ \t]*$", re.M | re.S)
"""Definitions of OF_HALVES, which are PTX in a text: in such a text every `unsigned int` is two numbers of fp16."""
_UNROLL = re.compile(r'_Pragma\("unroll"\)|^[ \t]*#[ \t]*pragma[ \t]+unroll[ \t]*$', re.M)
_ROLLED = re.compile(r'_Pragma\("unroll \d+"\)|^[ \t]*#[ \t]*pragma[ \t]+unroll[ \t]+\d+[ \t]*$', re.M)
_PRAGMA = re.compile(r'_Pragma\("[^"]*"\)|^[ \t]*#[ \t]*pragma\b.*$', re.M)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PRELUDE = "".join(f"typedef int {name};" for name in TYPES if name.isidentifier() and name not in
                   ("int", "unsigned", "signed", "float", "void", "char", "short", "long"))  # fmt: skip


@dataclass
class Function:
    """A function of the text that kernels call, for the arrays that its pointers point into."""

    name: str
    result: Type
    lines: list[str]


@dataclass
class Module:
    """A module that grows while kernels are translated, one after the other."""

    comments: list[tuple[int, str]]
    """(line of the text, comment) of those that are not written yet."""
    defined: dict[str, Node]
    several: bool
    """Whether the text has several kernels, so that their buffers have names of their own."""
    unroll: bool = False
    structures: dict[str, dict[str, Type]] = field(default_factory=dict)
    """Structure -> the types of its fields by name."""
    memories: dict[int, Memory] = field(default_factory=dict)
    """Memory by the identity of its declaration: what one pass finds of its accesses, the next one uses."""
    names: set[str] = field(default_factory=set)
    kernel: str = ""
    axes: set[int] = field(default_factory=set)
    """Axes of the range that the kernel asks for."""
    builtins: set[str] = field(default_factory=set)
    local: list[Memory] = field(default_factory=list)
    functions: dict[tuple[str, ...], Function] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)

    def comments_before(self, line: int) -> list[str]:
        """Return the comments above a line that are not written yet, and forget them."""
        above = [text for at, text in self.comments if at <= line]
        self.comments = self.comments[len(above) :]
        return above

    def type_of(self, node: Node) -> Type:
        """Return the type of a declaration without its pointers and axes."""
        return Body(self).type_of(node)

    def memory(self, declared: Node, **facts: Any) -> Memory:
        """Return the memory of a declaration, with a name that nothing else in the module has."""
        if id(declared) not in self.memories:
            stem = name = f"{self.kernel}_{facts['name']}" if self.several else safe(facts["name"])
            number = 1
            while name in self.names:
                number += 1
                name = f"{stem}_{number}"
            self.names.add(name)
            self.memories[id(declared)] = Memory(**{**facts, "name": name})
        return self.memories[id(declared)]

    def local_memory(self, declared: Node, name: str, element: Type, length: int) -> Memory:
        memory = self.memory(declared, name=name, space="workgroup", element=element, length=length)
        if not any(memory is listed for listed in self.local):
            self.local.append(memory)
        return memory

    def helper(self, name: str, text: str) -> str:
        self.helpers[name] = text
        return name

    def called(self, name: str, arguments: Sequence[Value | Address]) -> Value:
        """Return a call of a function of the text, translated for the arrays that are given."""
        if name not in self.defined:
            raise NotInWgsl(f"the function {name}")
        arrays = [argument.memory.name for argument in arguments if isinstance(argument, Address)]
        key = (name, *arrays)
        if key not in self.functions:
            self.functions[key] = self.function(self.defined[name], arguments)
        function = self.functions[key]
        nodes = _parameters(self.defined[name])
        codes = []
        for node, argument in zip(nodes, arguments, strict=True):
            if isinstance(argument, Address):
                unit = Address(argument.memory, (), self.type_of(node)).unit
                codes.append(convert(argument.index(unit), INT).code)
            else:
                codes.append(convert(argument, self.type_of(node)).code)
        return Value(f"{function.name}({', '.join(codes)})", function.result)

    def function(self, node: Node, arguments: Sequence[Value | Address]) -> Function:
        stem = name = safe(node.decl.name)
        while name in {function.name for function in self.functions.values()}:
            name = f"{stem}_{len(self.functions)}"
        result = self.type_of(node.decl.type)
        body, heads = Body(self, result), []
        changed = assigned(node.body)
        for parameter, argument in zip(_parameters(node), arguments, strict=True):
            code, type = body.free(parameter.name), self.type_of(parameter)
            word = f"{code}_given" if parameter.name in changed else code
            heads.append(f"{word}: {'i32' if isinstance(argument, Address) else type.name}")
            if word != code:
                body.emit(f"var {code} = {word};")
            if isinstance(argument, Address):
                body.scopes[0][parameter.name] = PointerVariable(code, type, argument.memory)
            else:
                body.scopes[0][parameter.name] = Variable(code, type)
        builtins, axes = set(self.builtins), set(self.axes)
        body.statements(node.body.block_items or [])
        if builtins != self.builtins or axes != self.axes:
            raise NotInWgsl("work-item numbers within functions")
        arrow = "" if result.kind == "void" else f" -> {result.name}"
        return Function(name, result, [f"fn {name}({', '.join(heads)}){arrow} {{", *body.lines, "}"])


def translated(text: str, *, unroll: bool = True) -> str:
    """Return a module of WGSL for a kernel's text in the dialect of dialect/webgpu.h. Raise NotInWgsl for what WGSL lacks.

    unroll: write out the loops that a pragma of the text unrolls, since WGSL has no such pragma.
    The comment before a kernel lists its arguments in order, by which a host finds their bindings.
    """
    code = _PRAGMA.sub("", _ROLLED.sub(f"{ROLLED}:", _UNROLL.sub(f"{UNROLL}:", text)))
    comments = [(code.count("\n", 0, match.start()) + 1, _plain(match[0])) for match in _COMMENT.finditer(code)]
    code = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), code)
    if "half_products" in code:
        code = _OF_HALVES.sub(lambda match: "\n" * match[0].count("\n"), code).replace("unsigned int ", "half2 ")
    code, setters = spread(code)
    for word, reason in LACKING.items():
        if re.search(word, code):
            raise NotInWgsl(reason)
    try:
        tree = CParser().parse(f'{_PRELUDE}\n#line 1 "kernel"\n{code}')
    except ParseError as error:
        raise NotInWgsl(f"C that a parser refuses: {str(error).removeprefix('kernel:')}") from None
    kernels, defined = [], {}
    for node in tree.ext:
        if isinstance(node, c_ast.FuncDef):
            if "_Noreturn" in node.decl.funcspec:
                kernels.append(node)
            defined[node.decl.name] = node
    module = Module(list(comments), defined, len(kernels) > 1, unroll)
    for node in tree.ext:
        if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.decls:
            module.structures[safe(node.type.name)] = {part.name: module.type_of(part) for part in node.type.decls}
    for _ in range(2):  # the first pass finds by which types each array is accessed
        module.comments = list(comments)
        module.local, module.functions, module.helpers = [], {}, {}
        parts = [_kernel(module, kernel) for kernel in kernels]
    memories = [memory.declaration for memory in module.local]
    structures = [
        f"struct {name} {{ {', '.join(f'{safe(part)}: {type.name}' for part, type in fields.items())} }}"
        for name, fields in module.structures.items()
    ]
    functions = ["\n".join(function.lines) for function in module.functions.values()]
    left_out = [f"// Kernel {name} sets pointers: the host binds what they point to." for name in setters]
    module_text = "\n\n".join(
        [
            *structures,
            *(["\n".join(memories)] if memories else []),
            *module.helpers.values(),
            *functions,
            *parts,
            *left_out,
        ]
    )
    axes = [axis for axis in "xyz" if re.search(rf"\bgroup_{axis}\b", module_text)]
    overrides = [f"override group_{axis}: u32; // work-items of a group, set by the host" for axis in axes]
    enabled = [f"enable {name};" for word, name in EXTENSIONS.items() if word in module_text]
    return "\n".join([*enabled, *overrides, "", module_text]).strip() + "\n"


def _kernel(module: Module, node: Node) -> str:
    """Return a kernel with the buffers and numbers that it takes."""
    name = node.decl.name
    module.kernel, module.axes, module.builtins = name, set(), set()
    prefix = f"{name}_" if module.several else ""
    body = Body(module)
    above = module.comments_before(node.decl.coord.line)
    buffers: list[Memory] = []
    numbers: list[tuple[str, Type]] = []
    words, changed = [], assigned(node.body)
    for parameter in _parameters(node):
        type, code = module.type_of(parameter), safe(parameter.name)
        if isinstance(parameter.type, c_ast.PtrDecl):
            constant = "const" in parameter.type.type.quals
            memory = module.memory(parameter, name=parameter.name, space="storage", element=type, constant=constant)
            memory.binding = len(buffers)
            buffers.append(memory)
            body.scopes[0][parameter.name] = memory
            words.append(f"{memory.name} (binding {memory.binding})")
        else:
            type = TYPES["int"] if type.kind in ("i8", "u8", "i16", "u16") else type
            if type.kind == "i64":
                raise NotInWgsl("integers of 64 bits")
            numbers.append((code, type))
            word = "var" if parameter.name in changed else "let"
            body.emit(f"{word} {code} = {prefix}arguments.{code};")
            body.scopes[0][parameter.name] = Variable(code, type)
            words.append(f"{code} ({type.name})")
    body.scopes.append({})
    body.statements(node.body.block_items or [])
    declarations = [memory.declaration for memory in buffers]
    if numbers:
        kind = "".join(word.title() for word in prefix.split("_")) + "Arguments"
        members = ", ".join(f"{code}: {type.name}" for code, type in numbers)
        declarations.append(f"struct {kind} {{ {members} }}")
        declarations.append(f"@group(0) @binding({len(buffers)}) var<uniform> {prefix}arguments: {kind};")
    one_axis = module.axes == {0}
    inputs, prologue = _positions(module.builtins, one_axis)
    axes = "group_x, 1, 1" if one_axis else "group_x, group_y, group_z"
    head = f"// Kernel {name}{' of one axis' * one_axis}, with the arguments {', '.join(words)}."
    return "\n".join([
        *above, *declarations, "", *_wrapped(head), f"@compute @workgroup_size({axes})",
        f"fn {safe(name)}({', '.join(inputs)}) {{", *prologue, *body.lines, "}",
    ])  # fmt: skip


def _positions(used: set[str], one_axis: bool) -> tuple[list[str], list[str]]:
    """Return the parameters of a kernel that say where a work-item is, and the lines that make integers of them.

    A kernel of one axis may be launched on two: WebGPU has at most 65,535 groups along one.
    """
    needed = set(used)
    if one_axis and needed & {"global_invocation", "workgroup"}:
        needed |= {"workgroup", "num_groups"} | ({"local_invocation"} if "global_invocation" in needed else set())
        needed -= {"global_invocation"}
    builtins = {
        "global_invocation": "global_invocation_id", "local_invocation": "local_invocation_id", "workgroup": "workgroup_id",
        "num_groups": "num_workgroups",
    }  # fmt: skip
    inputs = [f"@builtin({builtin}) {builtin}: vec3<u32>" for name, builtin in builtins.items() if name in needed]
    inputs += [f"@builtin({name}) {name}: u32" for name in OF_SUBGROUP.values() if name in used]
    lines = {name: f"  let {name} = vec3<i32>({builtin});" for name, builtin in builtins.items()}
    if one_axis:
        lines["workgroup"] = (
            "  let workgroup = vec3<i32>(i32(workgroup_id.x + workgroup_id.y * num_workgroups.x), 0, 0);"
        )
        lines["num_groups"] = "  let num_groups = vec3<i32>(i32(num_workgroups.x * num_workgroups.y), 1, 1);"
        lines["global_invocation"] = (
            "  let global_invocation = vec3<i32>(workgroup.x * i32(group_x) + local_invocation.x, 0, 0);"
        )
    order = ("local_invocation", "workgroup", "num_groups", "global_invocation")
    written = [
        lines[name] for name in order if name in used or (name in needed and name in ("local_invocation", "workgroup"))
    ]
    return inputs, written


def _parameters(node: Node) -> list[Node]:
    arguments = node.decl.type.args
    return [
        parameter
        for parameter in (arguments.params if arguments else [])
        if not isinstance(parameter, c_ast.Typename)  # (void)
    ]


def _plain(comment: str) -> str:
    """Return a comment as one of a line of its own."""
    return comment if comment.startswith("//") else "// " + " ".join(comment[2:-2].split())


def _wrapped(comment: str, width: int = 116) -> list[str]:
    """Break a comment into lines, at blanks."""
    lines, line = [], "//"
    for word in comment.split()[1:]:
        if len(line) + 1 + len(word) > width:
            lines.append(line)
            line = "//"
        line = f"{line} {word}"
    return [*lines, line]
