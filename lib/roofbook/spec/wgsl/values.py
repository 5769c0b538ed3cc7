"""Types, expressions and memory of a kernel while it is translated: what C says of them, and how WGSL writes them."""

import re
from dataclasses import dataclass, field

from ...devices.contract import Unsupported


class NotInWgsl(Unsupported):
    """Something that a kernel says and WGSL cannot. The message is the reason, in one clause."""


# How tightly an operator of WGSL binds: an operand of lower level needs brackets.
PRIMARY, UNARY, MUL, ADD, SHIFT, RELATION, BITS, AND, OR = 9, 8, 7, 6, 5, 4, 3, 2, 1

NARROW = {"i8": 8, "u8": 8, "i16": 16, "u16": 16}
"""Integer types that WGSL lacks, with their bits: a buffer of them is read as words."""


@dataclass(frozen=True)
class Type:
    """A number, or a vector of `lanes` numbers, of C."""

    kind: str
    """`i32`, `u32`, `f32`, `f16`, `bool`, `void`, one of NARROW, the name of a structure, or `i64`, which exists only within an
    index."""
    lanes: int = 1

    @property
    def name(self) -> str:
        """The type in WGSL."""
        kind = "i32" if self.kind in NARROW else self.kind
        if self.lanes > 4:
            return f"array<vec4<{kind}>, {self.lanes // 4}>"
        return f"vec{self.lanes}<{kind}>" if self.lanes > 1 else kind

    @property
    def scalar(self) -> "Type":
        """The type of a lane."""
        return Type(self.kind)


@dataclass(frozen=True)
class Array:
    """An array of private or local memory, with one or several axes."""

    element: "Type | Array"
    length: int

    @property
    def name(self) -> str:
        """The type in WGSL."""
        return f"array<{self.element.name}, {self.length}>"


INT, UINT, FLOAT, BOOL, VOID, LONG = map(Type, ("i32", "u32", "f32", "bool", "void", "i64"))
HALVES = Type("f16", 2)
"""Two numbers of fp16 in a register."""

SCALARS = {
    "int": INT, "signed int": INT, "signed": INT, "unsigned int": UINT, "unsigned": UINT, "uint": UINT, "float": FLOAT,
    "void": VOID, "char": Type("i8"), "signed char": Type("i8"), "unsigned char": Type("u8"), "uchar": Type("u8"),
    "short": Type("i16"), "unsigned short": Type("u16"), "ushort": Type("u16"), "half": Type("f16"), "long": LONG, "bool": BOOL,
}  # fmt: skip
"""Types of C that WGSL has, or that its words can hold."""
TYPES = {
    **SCALARS,
    **{f"{name}{n}": Type(kind, n) for name, kind in (("float", "f32"), ("int", "i32"), ("uint", "u32")) for n in (2, 4)},
    "float8": Type("f32", 8), "float16": Type("f32", 16), "half2": Type("f16", 2),
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """An expression of WGSL."""

    code: str
    type: Type
    level: int = PRIMARY
    number: int | None = None
    """The value of an integer literal."""

    def at(self, level: int) -> str:
        """Return the code as an operand of an operator: in brackets if it binds less tightly than `level`."""
        return self.code if self.level >= level else f"({self.code})"


def literal(number: int, type: Type = INT) -> Value:
    """Return an integer literal."""
    code = f"{number}u" if type == UINT else str(number)
    return Value(code, type, PRIMARY if number >= 0 else UNARY, number)


def convert(value: Value, type: Type) -> Value:
    """Return a value as C converts it to a type."""
    old, new = value.type, type
    if old == new:
        return value
    if old.lanes != new.lanes:
        if old.lanes > 1 or new.lanes > 4:
            raise NotInWgsl("conversions between vectors of different lengths")
        return Value(f"{new.name}({convert(value, new.scalar).code})", new)
    if "i64" in (old.kind, new.kind) and old.kind != new.kind and new.kind != "i64":
        raise NotInWgsl("integers of 64 bits")
    if old.name == new.name or new.kind == "i64":
        return Value(value.code, new, value.level, value.number)
    if new.kind == "bool":
        zero = {"f32": "0.0f", "u32": "0u"}.get(old.kind, "0")
        return Value(f"{value.at(SHIFT)} != {zero}", BOOL, RELATION)
    if value.number is not None and new.kind == "f16":
        return Value(f"{value.number}.0h", new, value.level)
    if value.number is not None and new.kind == "f32":
        return Value(f"{value.number}.0f", FLOAT, value.level)
    if value.number is not None and new.kind == "u32" and value.number >= 0:
        return literal(value.number, UINT)
    if value.number is not None and new.kind == "u32":
        return Value(f"bitcast<u32>(i32({value.number}))", UINT)
    if old.kind == "bool":
        zero, one = {"f32": ("0.0f", "1.0f"), "u32": ("0u", "1u")}.get(new.name, ("0", "1"))
        return Value(f"select({zero}, {one}, {value.code})", new)
    return Value(f"{new.name}({value.code})", new)


def promoted(value: Value) -> Value:
    """Return a value as C promotes it before arithmetic: truth values and narrow integers become i32, fp16 becomes f32."""
    kind = value.type.kind
    if kind == "f16":
        return convert(value, Type("f32", value.type.lanes))
    return convert(value, INT) if kind == "bool" or kind in NARROW else value


def common(first: Value, second: Value) -> tuple[Value, Value, Type]:
    """Return two operands in their common type, which is the third; a number beside a vector keeps one lane."""
    first, second = promoted(first), promoted(second)
    kinds = {first.type.kind, second.type.kind}
    kind = next(kind for kind in ("f32", "i64", "u32", "i32") if kind in kinds)
    return (
        convert(first, Type(kind, first.type.lanes)),
        convert(second, Type(kind, second.type.lanes)),
        Type(kind, max(first.type.lanes, second.type.lanes)),
    )


@dataclass
class Memory:
    """A buffer, or an array of local or private memory with one axis, into which pointers may point."""

    name: str
    space: str
    """`storage`, `workgroup` or `function`."""
    element: Type
    """The element's type as C declares it."""
    length: int | None = None
    """Number of elements of an array; None for a buffer."""
    constant: bool = False
    binding: int = 0
    loads: set[Type] = field(default_factory=set)
    """Types by which the kernel reads it."""
    stores: set[Type] = field(default_factory=set)
    """Types by which it writes it."""
    atomic: bool = False

    @property
    def stored(self) -> Type:
        """The element's type in WGSL: a vector if all accesses by vectors, and all stores, have this type, else a number."""
        kind = self.element.kind
        if self.atomic:
            return Type("u32" if kind == "f32" else kind)
        if kind in NARROW:
            return UINT if self.space == "storage" else INT
        wide = {min(type.lanes, 4) for type in self.loads | self.stores} - {1}
        if len(wide) == 1 and {min(type.lanes, 4) for type in self.stores} <= wide:
            return Type(kind, *wide)
        return Type(kind)

    @property
    def declaration(self) -> str:
        """The declaration in WGSL."""
        stored = self.stored
        element = f"atomic<{stored.name}>" if self.atomic else stored.name
        if self.space == "storage":
            access = "read" if self.constant and not self.atomic else "read_write"
            return f"@group(0) @binding({self.binding}) var<storage, {access}> {self.name}: array<{element}>;"
        assert self.length is not None
        array = f"array<{element}, {-(-self.length * self.element.lanes // stored.lanes)}>"
        return f"var<workgroup> {self.name}: {array};" if self.space == "workgroup" else f"var {self.name}: {array};"


@dataclass(frozen=True)
class Address:
    """A pointer: a memory, and a sum of terms (index, numbers per index) that lead into it."""

    memory: Memory
    terms: tuple[tuple[Value, int], ...]
    type: Type
    """The type to which it points."""

    def plus(self, index: Value) -> "Address":
        """Return the pointer some elements further on."""
        if index.type.kind not in ("i32", "u32", "i64"):
            index = promoted(index)
        return Address(self.memory, (*self.terms, (index, self.unit)), self.type)

    @property
    def unit(self) -> int:
        """Number of the memory's numbers in what it points to: four bytes, or two shorts, are a word."""
        in_word = 32 // NARROW.get(self.memory.element.kind, 32)
        return self.type.lanes * (1 if self.type.kind in NARROW else in_word)

    def seen_as(self, type: Type) -> "Address":
        """Return the pointer after a cast."""
        words, kinds = {"i32", "u32", "f32"}, {type.kind, self.memory.element.kind}
        reads_words = self.memory.element.kind in NARROW and type.kind in words and type.lanes == 1
        if len(kinds) > 1 and kinds - words and not reads_words:
            raise NotInWgsl("pointers to numbers of another size than the memory holds")
        return Address(self.memory, self.terms, type)

    def index(self, lanes: int) -> Value:
        """Return the index in units of `lanes` numbers."""
        multiples: list[tuple[Value, int]] = []
        remainders: list[tuple[Value, int]] = []
        for value, unit in self.terms:
            if value.number == 0:
                continue
            (multiples if unit % lanes == 0 else remainders).append((value, unit))
        parts = [scaled(value, unit // lanes) for value, unit in multiples]
        if remainders:
            parts.append(divided(added([scaled(value, unit) for value, unit in remainders]), lanes))
        return added(parts)


def scaled(value: Value, factor: int) -> Value:
    """Return an index times a positive constant."""
    if factor == 1:
        return value
    if value.number is not None:
        return literal(value.number * factor)
    return Value(f"{value.at(MUL)} * {factor}", value.type, MUL)


def divided(value: Value, divisor: int) -> Value:
    """Return an index that is a multiple of a power of two, divided by it."""
    if divisor == 1:
        return value
    return Value(f"{value.at(UNARY)} >> {divisor.bit_length() - 1}u", value.type, SHIFT)


def added(parts: list[Value]) -> Value:
    """Return the sum of indices; i32 if they differ in type."""
    if not parts:
        return literal(0)
    if len(parts) == 1:
        return parts[0]
    numbers = [part if part.type.kind != "u32" or part.number is not None else convert(part, INT) for part in parts]
    numbers = [literal(part.number) if part.number is not None else part for part in numbers]
    return Value(" + ".join([numbers[0].at(ADD), *(part.at(MUL) for part in numbers[1:])]), INT, ADD)


KEYWORDS = frozenset(re.findall(r"\w+", """
    alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop
    override requires return struct switch true var while NULL Self abstract active alignas alignof as asm asm_fragment async
    attribute auto await become cast catch class co_await co_return co_yield coherent column_major common compile
    compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete demote demote_to_helper do
    dynamic_cast enum explicit export extends extern external fallthrough filter final finally friend from fxgroup get goto
    groupshared highp impl implements import inline instanceof interface layout lowp macro macro_rules match mediump meta mod
    module move mut mutable namespace new nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null
    nullptr of operator package packoffset partition pass patch pixelfragment precise precision premerge priv protected pub
    public readonly ref regardless register reinterpret_cast require resource restrict self set shared sizeof smooth snorm
    static static_assert static_cast std subroutine super target template this thread_local throw trait try type typedef typeid
    typename typeof union unless unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield
    i32 u32 f32 f16 bool vec2 vec3 vec4 array atomic ptr select bitcast min max fma sqrt inverseSqrt abs exp log extractBits
    subgroupAdd subgroup_id num_subgroups subgroup_invocation_id
    arguments global_invocation local_invocation workgroup num_groups group_x group_y group_z
"""))  # fmt: skip
"""Words that no name of a translated kernel may be: WGSL reserves them, or the translation uses them."""


def safe(name: str) -> str:
    """Return a name that WGSL takes."""
    return f"{name}_" if name in KEYWORDS or name.startswith("__") else name
