(function_definition body: (_) @body) @item
