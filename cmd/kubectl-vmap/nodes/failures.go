package nodes

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"kube-vmap/cmd/inspect/status"
)

// Failures are the nodes that did not answer, by error.
type Failures struct {
	asked  int
	errors []string // in the order of their first nodes
	nodes  map[string][]string
	refuse int // that answered with an error
	absent []string
}

// Add counts a node; err is nil if it answered. It can be called in done of
// [Cluster.Each].
func (f *Failures) Add(n Node, err error) {
	if n.Absent {
		f.absent = append(f.absent, n.Name)
		return
	}
	f.asked++
	if err == nil {
		return
	}
	if f.nodes == nil {
		f.nodes = map[string][]string{}
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		f.refuse++
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

// Answered returns the number of nodes that answered.
func (f *Failures) Answered() int { return f.asked - f.Count() }

// AbsentText returns a line about nodes without a pod of kube-vmap; empty if there are none.
func AbsentText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s without kube-vmap: %s", status.Plural(len(names), "node"), Names(names))
}

// Err prints a line for each error with its nodes, and returns an error that counts them;
// nil if all answered. If all answered with the same error, that is the error.
func (f *Failures) Err(stderr io.Writer) error {
	if text := AbsentText(f.absent); text != "" {
		_, _ = fmt.Fprintln(stderr, text)
	}
	if f.refuse > 0 && f.refuse == f.asked && len(f.errors) == 1 {
		return errors.New(f.errors[0])
	}
	for _, text := range f.errors {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", Names(f.nodes[text]), text)
	}
	switch silent := f.Count() - f.refuse; {
	case silent > 0 && f.refuse > 0:
		return fmt.Errorf("%d of %d nodes did not answer, and %d answered with an error", silent, f.asked, f.refuse)
	case silent > 0:
		return fmt.Errorf("%d of %d nodes did not answer", silent, f.asked)
	case f.refuse > 0:
		return fmt.Errorf("%d of %d nodes answered with an error", f.refuse, f.asked)
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
