package nodes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/nodes"
)

func TestFailuresAreGroupedByError(t *testing.T) {
	var f nodes.Failures
	var out strings.Builder
	for i := range 9 {
		f.Add(nodes.Node{Name: fmt.Sprint("node-", i)}, map[bool]error{true: errors.New("no\nanswer")}[i != 4])
	}
	f.Add(nodes.Node{Name: "other"}, &nodes.ExitError{Stderr: "broken"})
	err := f.Err(&out)
	want := "node-0, node-1, node-2, node-3, node-5 and 3 more: no; answer\nother: broken\n"
	if fmt.Sprint(err) != "8 of 10 nodes did not answer, and 1 answered with an error" || out.String() != want {
		t.Errorf("%v, %q", err, out.String())
	}
}
