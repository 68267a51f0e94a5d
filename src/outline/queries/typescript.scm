(abstract_class_declaration body: (_) @body) @item
(interface_declaration body: (_) @body) @item
(enum_declaration body: (_) @body) @item
(type_alias_declaration) @item
(internal_module body: (_) @body) @item
(module body: (_) @body) @item
(function_signature) @item
(method_signature) @item
(abstract_method_signature) @item
(public_field_definition value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @item
