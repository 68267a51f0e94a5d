(function_declaration body: (_) @body) @item
(method_declaration body: (_) @body) @item
(source_file (type_declaration (type_spec type: (struct_type (field_declaration_list) @body)) @item))
(source_file (type_declaration (type_spec type: (interface_type "{" @body)) @item))
(source_file (type_declaration (type_spec type: [(type_identifier) (function_type) (map_type) (slice_type) (pointer_type) (qualified_type) (channel_type) (array_type) (generic_type)]) @item))
(source_file (type_declaration (type_alias) @item))
(method_elem) @item
(source_file (const_declaration (const_spec) @item))
(source_file (var_declaration (var_spec) @item))
(source_file (var_declaration (var_spec_list (var_spec) @item)))
