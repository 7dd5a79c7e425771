package nodes

import (
	"fmt"
	"io"
	"strings"
)

// Failures are the nodes that did not answer, by error.
type Failures struct {
	asked  int
	errors []string // in the order of their first nodes
	nodes  map[string][]string
}

// Add counts a node; err is nil if it answered. It can be called in done of
// [Cluster.Each].
func (f *Failures) Add(n Node, err error) {
	f.asked++
	if err == nil {
		return
	}
	if f.nodes == nil {
		f.nodes = map[string][]string{}
	}
	text := cleanLine(err.Error())
	if f.nodes[text] == nil {
		f.errors = append(f.errors, text)
	}
	f.nodes[text] = append(f.nodes[text], n.Name)
}

// Count returns the number of nodes that did not answer.
func (f *Failures) Count() (n int) {
	for _, names := range f.nodes {
		n += len(names)
	}
	return n
}

// Err prints a line for each error with its nodes, and returns an error that counts them;
// nil if all answered.
func (f *Failures) Err(stderr io.Writer) error {
	for _, text := range f.errors {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", Names(f.nodes[text]), text)
	}
	if n := f.Count(); n > 0 {
		return fmt.Errorf("%d of %d nodes did not answer", n, f.asked)
	}
	return nil
}

// maxNames is how many nodes are named in a line.
const maxNames = 5

// Names returns names of nodes for a line of text, of many the first ones.
func Names(list []string) string {
	if more := len(list) - maxNames; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNames], ", "), more)
	}
	return strings.Join(list, ", ")
}
