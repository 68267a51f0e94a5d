; Also for C++. Declarations of functions only where they are not local.
(function_definition body: (_) @body) @item
(translation_unit (declaration declarator: [(function_declarator) (pointer_declarator (function_declarator))]) @item)
(preproc_ifdef (declaration declarator: [(function_declarator) (pointer_declarator (function_declarator))]) @item)
(preproc_if (declaration declarator: [(function_declarator) (pointer_declarator (function_declarator))]) @item)
(declaration_list (declaration declarator: [(function_declarator) (pointer_declarator (function_declarator))]) @item)
(struct_specifier name: (_) body: (_) @body) @item
(union_specifier name: (_) body: (_) @body) @item
(enum_specifier name: (_) body: (_) @body) @item
(type_definition declarator: (_) @name) @item
(preproc_function_def parameters: (_) @last) @item
(preproc_def value: (_)) @item
