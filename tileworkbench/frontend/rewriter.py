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
from typing import Any, TypeVar

from ..base.errors import TileSyntaxError
from .scopes import MAYBE, NEVER, Escape, Scopes, find_scopes
from .source import Source
from .syntax import function_def

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
N = TypeVar("N", bound=ast.AST)
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
            _at(ast.Assign([_name(a, a.arg, ast.Store())], self.call("argument", a, _text(a, a.arg), _name(a, a.arg))), a)
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
        return super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.decorator_list:  # a macro reads its own source
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
            return node
        outer, self.is_helper = self.is_helper, True
        new = self.function(node)
        self.is_helper = outer
        return new

    def visit_Return(self, node: ast.Return) -> Any:
        value = self.visit(node.value) if node.value is not None else _at(ast.Constant(None), node)
        handles = [_name(node, self.handles[c]) for c in self.inside]
        return _at(ast.Return(self.call("result", node, value, *handles)), node)

    # ------------------------------------------------------------------ control flow
    def visit_If(self, node: ast.If) -> Any:
        test, handle = self.visit(node.test), self.enter(node)
        out = [
            _assign(node.test, handle, self.call("branch", node.test, test)),
            _at(ast.If(self.method(handle, "then", node.test), [*self.body(node.body), self.do(handle, "close", node.test)], []), node),
        ]
        if node.orelse:
            out.append(
                _at(ast.If(self.method(handle, "otherwise", node.test), [*self.body(node.orelse), self.do(handle, "close", node.test)], []), node)
            )
        self.inside.pop()
        return [*out, self.do(handle, "end", node.test)]

    def visit_For(self, node: ast.For) -> Any:
        names = _names_of(node.target)
        iterable = self.call("each" if self.is_helper else "loop", node.iter, self.visit(node.iter), _constant(node.target, tuple(names)))
        handle = self.enter(node)
        guard = self.escaping_targets(node.target)
        new = ast.For(node.target, _name(node.iter, handle), [*guard, *self.body(node.body)], [])
        self.inside.pop()
        orelse = self.body(node.orelse)
        new.orelse = orelse
        return [_assign(node.iter, handle, iterable), _at(new, node)]

    def visit_While(self, node: ast.While) -> Any:
        test = self.visit(node.test)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        start = self.call("while_loop", node.test, _constant(node, endless), _constant(node, _has_break(node.body)))
        handle = self.enter(node)
        body = self.body(node.body)
        self.inside.pop()
        condition = self.method(handle, "test", node.test, _lambda(test))
        return [_assign(node.test, handle, start), _at(ast.While(condition, body, self.body(node.orelse)), node)]

    def visit_Break(self, node: ast.Break) -> Any:
        return self.jump(node, "leave")

    def visit_Continue(self, node: ast.Continue) -> Any:
        return self.jump(node, "skip")

    def jump(self, node: ast.Break | ast.Continue, method: str) -> ast.stmt:
        loop = next(c for c in reversed(self.inside) if not isinstance(c, ast.If))
        return _at(ast.If(self.method(self.handles[loop], method, node), [node], []), node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        handles = [_name(node, self.handles[c]) for c in self.inside]
        return [_at(ast.Expr(self.call("raising", node, *handles)), node), self.generic_visit(node)] if handles else self.generic_visit(node)

    def visit_With(self, node: ast.With) -> Any:
        for item in node.items:
            names = _names_of(item.optional_vars)
            item.context_expr = self.call("context", item.context_expr, self.visit(item.context_expr), _constant(item.context_expr, tuple(names)))
        guards = [g for item in node.items if item.optional_vars is not None for g in self.escaping_targets(item.optional_vars)]
        node.body = [*guards, *self.body(node.body)]
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.visit(node.msg) if node.msg is not None else _text(node, "")
        return _at(ast.Expr(self.call("check", node, self.visit(node.test), _lambda(message), _text(node, ast.unparse(node.test)))), node)

    # ------------------------------------------------------------------ assignments
    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.store(node.targets[0], value, node)
        temp = self.temporary()
        out = [_assign(node, temp, value)]
        for target in node.targets:
            out += self.store(target, _name(node.value, temp), node)
        return out

    def store(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        match target:
            case ast.Name():
                return [_at(ast.Assign([target], self.bound(target, value, node)), node)]
            case ast.Subscript():
                call = self.call("set_item", node, self.visit(target.value), self.visit(target.slice), value)
                return [_at(ast.Expr(call), node)]
            case ast.Attribute():
                handles = [_name(node, self.handles[c]) for c in self.inside]
                call = self.call("set_attribute", node, self.visit(target.value), _text(node, target.attr), value, *handles)
                return [_at(ast.Expr(call), node)]
            case ast.Tuple() | ast.List():
                temps = [self.temporary() for _ in target.elts]
                names: list[ast.expr] = []
                for element, temp in zip(target.elts, temps, strict=True):
                    inner: ast.expr = _name(element, temp, ast.Store())
                    names.append(_at(ast.Starred(inner, ast.Store()), element) if isinstance(element, ast.Starred) else inner)
                out: list[ast.stmt] = [_at(ast.Assign([_at(ast.Tuple(names, ast.Store()), target)], self.elements(target, value)), node)]
                for element, temp in zip(target.elts, temps, strict=True):
                    plain = element.value if isinstance(element, ast.Starred) else element
                    out += self.store(plain, _name(element, temp), node)
                return out
        raise TileSyntaxError("this cannot be assigned to in a kernel", span=self.source.span(target), hint="assign to a name or a buffer element")

    def elements(self, target: ast.Tuple | ast.List, value: ast.expr) -> ast.expr:
        """The value of `a, b = x, y` with each element evaluated under the name of its target."""
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
            return value
        for i, (place, element) in enumerate(zip(target.elts, value.elts, strict=True)):
            if isinstance(place, ast.Name) and not isinstance(element, ast.Starred | ast.Name | ast.Constant):
                value.elts[i] = self.call("kept", element, self.call("named", element, _text(element, place.id)), element)
        return value

    def bound(self, target: ast.Name, value: ast.expr, node: ast.AST) -> ast.expr:
        """`__twb.assign(name, value, old)`, or `rebind` where the value is read outside an enclosing loop or branch."""
        named = self.call("named", node, _text(node, target.id))
        old = self.old_value(target)
        escapes = self.scopes.escapes.get(target)
        if escapes:
            return self.call("rebind", node, named, value, old, self.escape_table(escapes, node))
        return self.call("assign", node, named, value, old)

    def old_value(self, target: ast.Name) -> ast.expr:
        """What the name holds now: nothing, itself, or (if it may be unbound) a look that cannot fail."""
        before = self.scopes.before.get(target, MAYBE)
        if before == NEVER:
            return _constant(target, None)
        read = _name(target, target.id)
        return self.call("peek", target, _lambda(read)) if before == MAYBE else read

    def escape_table(self, escapes: Sequence[Escape], node: ast.AST) -> ast.expr:
        rows: list[ast.expr] = []
        for escape in escapes:
            reader = self.source.span(escape.reader)
            place = (reader.line, reader.col, reader.end_col, escape.is_new)
            rows.append(_at(ast.Tuple([_name(node, self.handles[escape.construct]), _constant(node, place)], ast.Load()), node))
        return _at(ast.Tuple(rows, ast.Load()), node)

    def escaping_targets(self, target: ast.expr) -> list[ast.stmt]:
        """Checks for loop variables and `with ... as` names that are read after their loop."""
        out: list[ast.stmt] = []
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and (escapes := self.scopes.escapes.get(node)):
                call = self.call("escaping", node, _text(node, node.id), self.escape_table(escapes, node), _constant(node, True))
                out.append(_at(ast.Expr(call), node))
        return out

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        value, op = self.visit(node.value), _OPERATORS[type(node.op)]
        match node.target:
            case ast.Name():
                read = _name(node.target, node.target.id)
                new = self.call("augmented", node, _text(node, op), read, value)
                if self.scopes.before.get(node.target) != NEVER:  # the read above fails first if the name is unbound
                    self.scopes.before[node.target] = 2
                return _at(ast.Assign([node.target], self.bound(node.target, new, node)), node)
            case ast.Subscript():
                call = self.call("augment_item", node, self.visit(node.target.value), self.visit(node.target.slice), _text(node, op), value)
                return _at(ast.Expr(call), node)
        handles = [_name(node, self.handles[c]) for c in self.inside]
        assert isinstance(node.target, ast.Attribute)
        call = self.call("augment_attribute", node, self.visit(node.target.value), _text(node, node.target.attr), _text(node, op), value, *handles)
        return _at(ast.Expr(call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        annotation = self.visit(node.annotation)
        if not isinstance(node.target, ast.Name):
            raise TileSyntaxError("only a name can be annotated in a kernel", span=self.source.span(node.target), hint="drop the annotation")
        target = _name(node.target, node.target.id, ast.Store())
        if node.value is None:
            if self.scopes.before.get(node.target) == NEVER:
                return _at(ast.Pass(), node)
            old = self.old_value(node.target)
            call = self.call("annotate", node, _text(node, node.target.id), annotation, old)
            return _at(ast.Assign([target], call), node)
        value = self.call("typed", node, annotation, self.visit(node.value))
        return _at(ast.Assign([target], self.bound(node.target, value, node)), node)

    # ------------------------------------------------------------------ expressions
    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.call("choose", node, self.visit(node.test), _lambda(self.visit(node.body)), _lambda(self.visit(node.orelse)))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        first, *rest = [self.visit(v) for v in node.values]
        return self.call("both" if isinstance(node.op, ast.And) else "either", node, first, *(_lambda(r) for r in rest))

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
            parts += [_text(node, _COMPARES[type(op)]), _lambda(value)]
        return self.call("chain", node, values[0], *parts)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            node.func = self.call("builtin", node.func, node.func)
        elif not (isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and self.is_language(node.func.value.id)):
            call = _at(ast.Attribute(_name(node.func, HIDDEN), "call", ast.Load()), node.func)
            return _at(ast.Call(call, [node.func, *node.args], node.keywords), node)
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
        return _at(ast.Call(_at(ast.Attribute(_name(where, HIDDEN), function, ast.Load()), where), list(args), []), where)

    def method(self, handle: str, function: str, where: ast.AST, *args: ast.expr) -> ast.Call:
        return _at(ast.Call(_at(ast.Attribute(_name(where, handle), function, ast.Load()), where), list(args), []), where)

    def do(self, handle: str, function: str, where: ast.AST) -> ast.stmt:
        return _at(ast.Expr(self.method(handle, function, where)), where)


def _at(node: N, where: ast.AST) -> N:
    return ast.copy_location(node, where)


def _name(where: ast.AST, name: str, context: ast.expr_context | None = None) -> ast.Name:
    return _at(ast.Name(name, context or ast.Load()), where)


def _constant(where: ast.AST, value: Any) -> ast.Constant:
    return _at(ast.Constant(value), where)


def _text(where: ast.AST, text: str) -> ast.Constant:
    return _at(ast.Constant(text), where)


def _assign(where: ast.AST, name: str, value: ast.expr) -> ast.stmt:
    return _at(ast.Assign([_name(where, name, ast.Store())], value), where)


def _lambda(body: ast.expr) -> ast.Lambda:
    return _at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body), body)


def _names_of(target: ast.expr | None) -> list[str]:
    """A flat list of the target's names; empty where one is not a plain name."""
    match target:
        case ast.Name():
            return [target.id]
        case ast.Tuple() | ast.List() if all(isinstance(e, ast.Name) for e in target.elts):
            return [e.id for e in target.elts if isinstance(e, ast.Name)]
    return []


def _has_break(body: Sequence[ast.stmt]) -> bool:
    """True if a `break` of this loop itself is in `body`."""
    for stmt in body:
        if isinstance(stmt, ast.Break | ast.Return):
            return True
        if isinstance(stmt, ast.If | ast.With) and _has_break([*stmt.body, *getattr(stmt, "orelse", [])]):
            return True
    return False
