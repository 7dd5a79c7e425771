package findings

import (
	"cmp"
	"fmt"
	"strings"
)

// thisNode is what a node calls itself in texts.
const thisNode = "this node"

// maxNames is how many nodes are named in a line.
const maxNames = 3

// Where returns which nodes a list has, of all that answered, for a line of text: their names
// if they are few, those of the others if these are few, or the first ones and how many more.
// Both lists are in the order of [CompareNames].
func Where(list, all []string, separator string) string {
	if len(list) <= maxNames && (len(list) < len(all) || len(list) == 1) {
		return strings.Join(list, separator)
	}
	var others []string
	rest := list
	for _, name := range all {
		if len(rest) > 0 && rest[0] == name {
			rest = rest[1:]
		} else if others = append(others, name); len(others) > maxNames {
			break
		}
	}
	switch {
	case len(others) == 0:
		return fmt.Sprintf("all %d nodes", len(all))
	case len(others) < maxNames:
		return "all nodes but " + strings.Join(others, separator)
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(list[:maxNames], separator), len(list)-maxNames)
}

// CompareNames compares names so that node-2 is before node-10.
func CompareNames(a, b string) int {
	for a != "" && b != "" {
		x, restA := firstPart(a)
		y, restB := firstPart(b)
		order := cmp.Compare(x, y)
		if isDigit(x[0]) && isDigit(y[0]) {
			order = cmp.Or(cmp.Compare(len(x), len(y)), order)
		}
		if order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// firstPart cuts a name after its first digits, or before them.
func firstPart(s string) (first, rest string) {
	i := 1
	for i < len(s) && isDigit(s[i]) == isDigit(s[0]) {
		i++
	}
	return s[:i], s[i:]
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
