// Package lines has what "kube-vmap diff -o json" prints, for programs on other machines.
package lines

// Schema is the number of the differences of this version; see package schema.
const Schema = 1

// Difference is how the kernel differs from the wanted rule set.
type Difference struct {
	Schema int `json:"schema"`
	// Lines are elements, rules, chains and maps: "-" for what should not be in the kernel,
	// "+" for what is missing.
	Lines []string `json:"lines"`
}
