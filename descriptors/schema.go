package descriptors

import _ "embed"

// SchemaURL is where editors find [Schema].
const SchemaURL = "https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json"

// Schema is the JSON Schema (draft-07) of descriptor files, for editors and for the values of a Helm chart. It refuses what
// the parser refuses, as far as a schema can. It also refuses what the parser ignores, such as a key in the wrong place,
// and other spellings: a flag is true or false, a number is written in digits. It counts characters where the parser
// counts bytes. Editors show patternErrorMessage instead of a pattern.
//
//go:embed schema.json
var Schema string
