(module name: (_)) @item
(class name: (_)) @item
(singleton_class) @item
(method) @item
(singleton_method) @item
(program (assignment left: (constant)) @item)
(body_statement (assignment left: (constant)) @item)
