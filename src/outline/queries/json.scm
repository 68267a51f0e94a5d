(pair key: (string) @name) @item
