(namespace_definition name: (_) @last) @item
(class_declaration body: (_) @body) @item
(interface_declaration body: (_) @body) @item
(trait_declaration body: (_) @body) @item
(enum_declaration body: (_) @body) @item
(function_definition body: (_) @body) @item
(method_declaration body: (_)? @body) @item
(const_declaration) @item
