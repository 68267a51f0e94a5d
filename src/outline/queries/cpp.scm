(class_specifier name: (_) body: (_) @body) @item
(namespace_definition body: (_) @body) @item
(field_declaration declarator: (function_declarator)) @item
(field_declaration_list (declaration declarator: (function_declarator)) @item)
(concept_definition name: (_) @last) @item
(alias_declaration) @item
