(rule_set (selectors) @name) @item
(media_statement (block) @body) @item
(supports_statement (block) @body) @item
(keyframes_statement (keyframes_name) @last) @item
(at_rule (block) @body) @item
