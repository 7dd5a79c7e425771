package schema

// OfDifference is the number of the differences of this version.
const OfDifference = 1

// Difference is what "kube-vmap diff -o json" prints: how the kernel differs from the wanted rule set.
type Difference struct {
	Schema int `json:"schema"`
	// Lines are elements, rules, chains and maps: "-" for what should not be in the kernel,
	// "+" for what is missing.
	Lines []string `json:"lines"`
}
