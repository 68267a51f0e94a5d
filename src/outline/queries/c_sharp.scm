(namespace_declaration body: (_) @body) @item
(file_scoped_namespace_declaration) @item
(class_declaration body: (_) @body) @item
(struct_declaration body: (_) @body) @item
(interface_declaration body: (_) @body) @item
(record_declaration name: (_) body: (_)? @body) @item
(enum_declaration body: (_) @body) @item
(delegate_declaration) @item
(constructor_declaration body: (_) @body) @item
(method_declaration body: (_)? @body) @item
(property_declaration accessors: (_) @body) @item
((field_declaration (modifier) @_modifier) @item
  (#eq? @_modifier "const"))
