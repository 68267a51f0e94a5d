(function_item body: (_) @body) @item
(function_signature_item) @item
(struct_item name: (_) body: (_)? @body) @item
(union_item body: (_) @body) @item
(enum_item body: (_) @body) @item
(trait_item body: (_) @body) @item
(impl_item body: (_)? @body) @item
(mod_item body: (_) @body) @item
(foreign_mod_item body: (_) @body) @item
(macro_definition name: (identifier) @last) @item
(type_item) @item
(const_item) @item
(static_item) @item
