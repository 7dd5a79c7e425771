// Package schema reads the JSON that commands print for programs on other machines. Each
// kind of it has a number, its schema, which grows when a reader of the number before
// would misunderstand it. Readers know the present one and the one before, and ignore
// fields that they do not know. JSON without a number has number 0: it is older than
// the numbers.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Decode reads JSON of a schema up to the known one.
func Decode(text []byte, known int, into any) error {
	var header struct {
		Schema  int    `json:"schema"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		if at := (*json.SyntaxError)(nil); errors.As(err, &at) && at.Offset >= int64(len(text)) {
			return fmt.Errorf("the answer broke off after %d bytes", len(text)) // the connection was cut
		}
		return fmt.Errorf("read the answer: %w", err)
	}
	if header.Schema > known {
		version := ""
		if header.Version != "" {
			version = " of kube-vmap " + header.Version
		}
		return fmt.Errorf("the answer%s has schema %d, and this program knows %d at most: use a newer one", version,
			header.Schema, known)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// OfDifference is the number of the differences of this version.
const OfDifference = 1

// Difference is what "kube-vmap diff -o json" prints: how the kernel differs from the wanted rule set.
type Difference struct {
	Schema int `json:"schema"`
	// Lines are elements, rules, chains and maps: "-" for what should not be in the kernel,
	// "+" for what is missing.
	Lines []string `json:"lines"`
}
