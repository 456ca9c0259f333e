"""Rewrite a kernel function so that Python's control flow and assignments reach the builder.

Before:  for k in T.serial(n):            After:  __l1 = __twb.loop(T.serial(n), ('k',))
             if k > 0:                            for k in __l1:
                 x = A[k]                             __b2 = __twb.branch(k > 0)
                                                      if __b2.then():
                                                          x = __twb.assign(__twb.named('x'), A[k])
                                                          __b2.close()
                                                      __b2.end()

`__twb` is the module `control`, a closure cell of the new function. Everything over plain Python values keeps its meaning, because
each of these helpers does what Python does when no kernel value is involved. Positions are kept, so that errors and spans are exact.

Requires: the function's source (source.py).  Preserves: globals, closure cells, defaults, file name and lines.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..base.errors import TileSyntaxError
from .scopes import MAYBE, NEVER, Escape, Scopes, find_scopes
from .source import Source
from .syntax import assignment, at, constant, delayed, function_def, has_break, names_of, variable

HIDDEN = "__twb"
BUILTINS = ("min", "max", "abs", "int", "float", "bool", "range", "sum", "any", "all", "round", "pow", "len")
_REFUSED = {
    ast.ClassDef: ("a class cannot be defined in a kernel", "define it outside, decorated with @T.meta_class if its methods emit code"),
    ast.AsyncFunctionDef: ("async functions cannot be part of a kernel", "use def"),
    ast.AsyncFor: ("async loops cannot be part of a kernel", "use T.Pipelined for copies that run ahead"),
    ast.AsyncWith: ("async blocks cannot be part of a kernel", "use T.Pipelined for copies that run ahead"),
    ast.Global: ("`global` cannot be used in a kernel", "return the value, or use T.alloc_var"),
    ast.Nonlocal: ("`nonlocal` cannot be used in a kernel", "return the value, or use T.alloc_var"),
    ast.Delete: ("`del` cannot be used in a kernel", "leave the name alone; buffers live as long as their launch"),
    ast.Try: ("`try` cannot be used in a kernel", "a kernel raises nothing; test the condition with `if`, or check it with T.device_assert"),
    ast.TryStar: ("`try` cannot be used in a kernel", "a kernel raises nothing; test the condition with `if`"),
    ast.Match: ("`match` cannot be used in a kernel", "use if, elif and else"),
    ast.NamedExpr: ("`:=` cannot be used in a kernel", "assign on a line of its own"),
    ast.Await: ("`await` cannot be used in a kernel", "tile operations are complete when the next statement starts"),
    ast.Yield: ("`yield` cannot be used in a kernel", "a kernel is not a generator"),
    ast.YieldFrom: ("`yield from` cannot be used in a kernel", "a kernel is not a generator"),
}
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift", ast.MatMult: "matmul",
}  # fmt: skip
_COMPARES = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def rewrite_function(source: Source, is_helper: bool = False, is_language: Callable[[str], bool] = lambda name: False) -> ast.FunctionDef:
    """The definition rewritten, without decorators and annotations.

    In a helper, loops over `range` stay loops of Python. `is_language(name)` says that a global name is the language module, whose words
    need no look for helpers. Raises: TileSyntaxError for a statement that no kernel may hold.
    """
    return _Rewriter(source, is_helper, is_language).function(source.take_tree())


class _Rewriter(ast.NodeTransformer):
    methods: ClassVar[dict[type[ast.AST], Callable[[_Rewriter, Any], Any]]] = {}

    def __init__(self, source: Source, is_helper: bool, is_language: Callable[[str], bool]) -> None:
        self.source = source
        self.is_helper = is_helper
        self.is_language = is_language
        self.count = 0
        self.scopes = Scopes()
        self.handles: dict[ast.AST, str] = {}  # loop or branch -> the local name of its handle
        self.inside: list[ast.For | ast.While | ast.If] = []

    # ------------------------------------------------------------------ functions
    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer = self.scopes, self.handles, self.inside
        self.scopes, self.handles, self.inside = find_scopes(node), {}, []
        args = node.args
        entry = [
            at(ast.Assign([variable(a, a.arg, ast.Store())], self.call("argument", a, constant(a, a.arg), variable(a, a.arg))), a)
            for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)
        ]
        body = entry + self.body(node.body)
        bare = [[ast.copy_location(ast.arg(a.arg), a) for a in group] for group in (args.posonlyargs, args.args, args.kwonlyargs)]
        stars = [ast.copy_location(ast.arg(a.arg), a) if a else None for a in (args.vararg, args.kwarg)]
        defaults = [self.visit(d) for d in args.defaults], [self.visit(d) if d else None for d in args.kw_defaults]
        new = ast.arguments(bare[0], bare[1], stars[0], bare[2], defaults[1], stars[1], defaults[0])
        self.scopes, self.handles, self.inside = outer
        return function_def(node.name, new, body, node)

    def body(self, statements: Sequence[ast.stmt]) -> list[Any]:
        out: list[ast.stmt] = []
        for stmt in statements:
            result = self.visit(stmt)
            out.extend(result if isinstance(result, list) else [result])
        return out

    def visit(self, node: ast.AST) -> Any:
        refused = _REFUSED.get(type(node))
        if refused is not None:
            raise TileSyntaxError(refused[0], span=self.source.span(node), hint=refused[1])
        method = self.methods.get(type(node))
        if method is None:
            name = f"visit_{type(node).__name__}"
            method = self.methods[type(node)] = getattr(type(self), name, type(self).generic_visit)
        return method(self, node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the children in place, as NodeTransformer does, but without looking into names and constants."""
        if isinstance(node, ast.Name | ast.Constant):
            return node
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                is_body = bool(value) and isinstance(value[0], ast.stmt)
                value[:] = self.body(value) if is_body else [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
            elif isinstance(value, ast.expr | ast.arguments | ast.keyword):
                setattr(node, field, self.visit(value))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.decorator_list:  # a macro reads its own source
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
            return node
        outer, self.is_helper = self.is_helper, True
        new = self.function(node)
        self.is_helper = outer
        return new

    def visit_Return(self, node: ast.Return) -> Any:
        value = self.visit(node.value) if node.value is not None else at(ast.Constant(None), node)
        handles = [variable(node, self.handles[c]) for c in self.inside]
        return at(ast.Return(self.call("result", node, value, *handles)), node)

    # ------------------------------------------------------------------ control flow
    def visit_If(self, node: ast.If) -> Any:
        test, handle = self.visit(node.test), self.enter(node)
        out = [
            assignment(node.test, handle, self.call("branch", node.test, test)),
            at(ast.If(self.method(handle, "then", node.test), [*self.body(node.body), self.do(handle, "close", node.test)], []), node),
        ]
        if node.orelse:
            out.append(
                at(ast.If(self.method(handle, "otherwise", node.test), [*self.body(node.orelse), self.do(handle, "close", node.test)], []), node)
            )
        self.inside.pop()
        return [*out, self.do(handle, "end", node.test)]

    def visit_For(self, node: ast.For) -> Any:
        names = names_of(node.target)
        iterable = self.call("each" if self.is_helper else "loop", node.iter, self.visit(node.iter), constant(node.target, tuple(names)))
        handle = self.enter(node)
        guard = self.escaping_targets(node.target)
        new = ast.For(node.target, variable(node.iter, handle), [*guard, *self.body(node.body)], [])
        self.inside.pop()
        new.orelse = self.loop_else(node, handle)
        return [assignment(node.iter, handle, iterable), at(new, node)]

    def visit_While(self, node: ast.While) -> Any:
        test = self.visit(node.test)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        start = self.call("while_loop", node.test, constant(node, endless), constant(node, has_break(node.body)))
        handle = self.enter(node)
        body = self.body(node.body)
        self.inside.pop()
        condition = self.method(handle, "test", node.test, delayed(test))
        return [assignment(node.test, handle, start), at(ast.While(condition, body, self.loop_else(node, handle)), node)]

    def loop_else(self, node: ast.For | ast.While, handle: str) -> list[Any]:
        """The `else` of a loop, which only a loop of Python may have."""
        if not node.orelse:
            return []
        return [at(ast.Expr(self.call("loop_else", node.orelse[0], variable(node.orelse[0], handle))), node.orelse[0]), *self.body(node.orelse)]

    def visit_Break(self, node: ast.Break) -> Any:
        return self.jump(node, "leave")

    def visit_Continue(self, node: ast.Continue) -> Any:
        return self.jump(node, "skip")

    def jump(self, node: ast.Break | ast.Continue, method: str) -> ast.stmt:
        loop = next(c for c in reversed(self.inside) if not isinstance(c, ast.If))
        return at(ast.If(self.method(self.handles[loop], method, node), [node], []), node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        handles = [variable(node, self.handles[c]) for c in self.inside]
        return [at(ast.Expr(self.call("raising", node, *handles)), node), self.generic_visit(node)] if handles else self.generic_visit(node)

    def visit_With(self, node: ast.With) -> Any:
        for item in node.items:
            names = names_of(item.optional_vars)
            item.context_expr = self.call("context", item.context_expr, self.visit(item.context_expr), constant(item.context_expr, tuple(names)))
        guards = [g for item in node.items if item.optional_vars is not None for g in self.escaping_targets(item.optional_vars)]
        node.body = [*guards, *self.body(node.body)]
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.visit(node.msg) if node.msg is not None else constant(node, "")
        return at(ast.Expr(self.call("check", node, self.visit(node.test), delayed(message), constant(node, ast.unparse(node.test)))), node)

    # ------------------------------------------------------------------ assignments
    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.store(node.targets[0], value, node)
        temp = self.temporary()
        out = [assignment(node, temp, value)]
        for target in node.targets:
            out += self.store(target, variable(node.value, temp), node)
        return out

    def store(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        match target:
            case ast.Name():
                return [at(ast.Assign([target], self.bound(target, value, node)), node)]
            case ast.Subscript():
                call = self.call("set_item", node, self.call("place", target, self.visit(target.value), self.visit(target.slice)), value)
                return [at(ast.Expr(call), node)]
            case ast.Attribute():
                handles = [variable(node, self.handles[c]) for c in self.inside]
                call = self.call("set_attribute", node, self.visit(target.value), constant(node, target.attr), value, *handles)
                return [at(ast.Expr(call), node)]
            case ast.Tuple() | ast.List():
                temps = [self.temporary() for _ in target.elts]
                names: list[ast.expr] = []
                for element, temp in zip(target.elts, temps, strict=True):
                    inner: ast.expr = variable(element, temp, ast.Store())
                    names.append(at(ast.Starred(inner, ast.Store()), element) if isinstance(element, ast.Starred) else inner)
                out: list[ast.stmt] = [at(ast.Assign([at(ast.Tuple(names, ast.Store()), target)], self.elements(target, value)), node)]
                for element, temp in zip(target.elts, temps, strict=True):
                    plain = element.value if isinstance(element, ast.Starred) else element
                    out += self.store(plain, variable(element, temp), node)
                return out
        raise TileSyntaxError("this cannot be assigned to in a kernel", span=self.source.span(target), hint="assign to a name or a buffer element")

    def elements(self, target: ast.Tuple | ast.List, value: ast.expr) -> ast.expr:
        """The value of `a, b = x, y` with each element evaluated under the name of its target."""
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
            return value
        for i, (place, element) in enumerate(zip(target.elts, value.elts, strict=True)):
            if isinstance(place, ast.Name) and not isinstance(element, ast.Starred | ast.Name | ast.Constant):
                value.elts[i] = self.call("kept", element, self.call("named", element, constant(element, place.id)), element)
        return value

    def bound(self, target: ast.Name, value: ast.expr, node: ast.AST) -> ast.expr:
        """`__twb.assign(name, value, old)`, or `rebind` where the value is read outside an enclosing loop or branch."""
        named = self.call("named", node, constant(node, target.id))
        old = self.old_value(target)
        escapes = self.scopes.escapes.get(target)
        if escapes:
            return self.call("rebind", node, named, value, old, self.escape_table(escapes, node))
        return self.call("assign", node, named, value, old)

    def old_value(self, target: ast.Name) -> ast.expr:
        """What the name holds now: nothing, itself, or (if it may be unbound) a look that cannot fail."""
        before = self.scopes.before.get(target, MAYBE)
        if before == NEVER:
            return constant(target, None)
        read = variable(target, target.id)
        return self.call("peek", target, delayed(read)) if before == MAYBE else read

    def escape_table(self, escapes: Sequence[Escape], node: ast.AST) -> ast.expr:
        rows: list[ast.expr] = []
        for escape in escapes:
            reader = self.source.span(escape.reader)
            place = (reader.line, reader.col, reader.end_col, escape.is_new)
            rows.append(at(ast.Tuple([variable(node, self.handles[escape.construct]), constant(node, place)], ast.Load()), node))
        return at(ast.Tuple(rows, ast.Load()), node)

    def escaping_targets(self, target: ast.expr) -> list[ast.stmt]:
        """Checks for loop variables and `with ... as` names that are read after their loop."""
        out: list[ast.stmt] = []
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and (escapes := self.scopes.escapes.get(node)):
                call = self.call("escaping", node, constant(node, node.id), self.escape_table(escapes, node), constant(node, True))
                out.append(at(ast.Expr(call), node))
        return out

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        value, op = self.visit(node.value), _OPERATORS[type(node.op)]
        match node.target:
            case ast.Name():
                read = variable(node.target, node.target.id)
                new = self.call("augmented", node, constant(node, op), read, value)
                if self.scopes.before.get(node.target) != NEVER:  # the read above fails first if the name is unbound
                    self.scopes.before[node.target] = 2
                return at(ast.Assign([node.target], self.bound(node.target, new, node)), node)
            case ast.Subscript():
                where = self.call("place", node.target, self.visit(node.target.value), self.visit(node.target.slice))
                call = self.call("augment_item", node, where, constant(node, op), value)
                return at(ast.Expr(call), node)
        handles = [variable(node, self.handles[c]) for c in self.inside]
        assert isinstance(node.target, ast.Attribute)
        call = self.call(
            "augment_attribute", node, self.visit(node.target.value), constant(node, node.target.attr), constant(node, op), value, *handles
        )
        return at(ast.Expr(call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        annotation = self.visit(node.annotation)
        if not isinstance(node.target, ast.Name):
            raise TileSyntaxError("only a name can be annotated in a kernel", span=self.source.span(node.target), hint="drop the annotation")
        target = variable(node.target, node.target.id, ast.Store())
        if node.value is None:
            if self.scopes.before.get(node.target) == NEVER:
                return at(ast.Pass(), node)
            old = self.old_value(node.target)
            call = self.call("annotate", node, constant(node, node.target.id), annotation, old)
            return at(ast.Assign([target], call), node)
        value = self.call("typed", node, annotation, self.visit(node.value))
        return at(ast.Assign([target], self.bound(node.target, value, node)), node)

    # ------------------------------------------------------------------ expressions
    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.call("choose", node, self.visit(node.test), delayed(self.visit(node.body)), delayed(self.visit(node.orelse)))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        first, *rest = [self.visit(v) for v in node.values]
        return self.call("both" if isinstance(node.op, ast.And) else "either", node, first, *(delayed(r) for r in rest))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self.call("negate", node, operand)
        node.operand = operand
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        values = [self.visit(v) for v in (node.left, *node.comparators)]
        if len(node.ops) == 1 or not all(type(op) in _COMPARES for op in node.ops):
            node.left, node.comparators = values[0], values[1:]
            return node
        parts: list[ast.expr] = []
        for op, value in zip(node.ops, values[1:], strict=True):
            parts += [constant(node, _COMPARES[type(op)]), delayed(value)]
        return self.call("chain", node, values[0], *parts)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            node.func = self.call("builtin", node.func, node.func)
        elif not (isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and self.is_language(node.func.value.id)):
            call = at(ast.Attribute(variable(node.func, HIDDEN), "call", ast.Load()), node.func)
            return at(ast.Call(call, [node.func, *node.args], node.keywords), node)
        return node

    # ------------------------------------------------------------------ making nodes
    def enter(self, node: ast.For | ast.While | ast.If) -> str:
        self.count += 1
        self.handles[node] = f"__h{self.count}"
        self.inside.append(node)
        return self.handles[node]

    def temporary(self) -> str:
        self.count += 1
        return f"__t{self.count}"

    def call(self, function: str, where: ast.AST, *args: ast.expr) -> ast.Call:
        return at(ast.Call(at(ast.Attribute(variable(where, HIDDEN), function, ast.Load()), where), list(args), []), where)

    def method(self, handle: str, function: str, where: ast.AST, *args: ast.expr) -> ast.Call:
        return at(ast.Call(at(ast.Attribute(variable(where, handle), function, ast.Load()), where), list(args), []), where)

    def do(self, handle: str, function: str, where: ast.AST) -> ast.stmt:
        return at(ast.Expr(self.method(handle, function, where)), where)
