(class_definition body: (_) @body) @item
(function_definition body: (_) @body) @item
((module (expression_statement (assignment left: (identifier) @_name)) @item)
  (#match? @_name "^[A-Z][A-Z0-9_]+$"))
