; What a reader looks for: the parts of a page, what has an id, headings with their text.
((element (start_tag (tag_name) @_tag) @name) @item
  (#match? @_tag "^(?i:html|head|body|header|footer|main|nav|aside|section|article|form|table|template|dialog|svg)$"))
((element (start_tag (attribute (attribute_name) @_attribute)) @name) @item
  (#match? @_attribute "^(?i:id)$"))
((element (start_tag (tag_name) @_tag)) @item @name
  (#match? @_tag "^(?i:h[1-6]|title)$"))
(script_element (start_tag) @name) @item
(style_element (start_tag) @name) @item
