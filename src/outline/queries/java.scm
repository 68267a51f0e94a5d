(class_declaration body: (_) @body) @item
(interface_declaration body: (_) @body) @item
(enum_declaration body: (_) @body) @item
(record_declaration body: (_) @body) @item
(annotation_type_declaration body: (_) @body) @item
(constructor_declaration body: (_) @body) @item
(method_declaration body: (_)? @body) @item
((field_declaration (modifiers) @_modifiers) @item
  (#match? @_modifiers "static\\s+final|final\\s+static"))
(constant_declaration) @item
