; Also for TypeScript.
(function_declaration body: (_) @body) @item
(generator_function_declaration body: (_) @body) @item
(class_declaration body: (_) @body) @item
(method_definition body: (_) @body) @item
(lexical_declaration (variable_declarator value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (class body: (_) @body)])) @item
(variable_declaration (variable_declarator value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (class body: (_) @body)])) @item
(pair value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @item
; Tables of functions, and settings.
(program (lexical_declaration (variable_declarator value: (object) @body)) @item)
(export_statement (lexical_declaration (variable_declarator value: (object) @body)) @item)
((program (lexical_declaration (variable_declarator name: (identifier) @_name)) @item)
  (#match? @_name "^[A-Z][A-Z0-9_]+$"))
((export_statement (lexical_declaration (variable_declarator name: (identifier) @_name)) @item)
  (#match? @_name "^[A-Z][A-Z0-9_]+$"))
; Tests: describe("cart", () => {…})
((expression_statement (call_expression
    function: (identifier) @_call
    arguments: (arguments . [(string) (template_string)] [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))) @item
  (#any-of? @_call "describe" "it" "test" "suite" "context"))
