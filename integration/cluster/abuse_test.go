package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attack is a list of objects that one tenant writes to the API.
type attack struct {
	name string
	// create returns the objects as they are created, changes their later versions. At the
	// end they are deleted.
	create, changes func() []metav1.Object
}

// TestAbuse runs attacks, of which the long suite has all, while an honest tenant's Services are
// asked and changed, and while another program writes to nf_tables. It prints the cost of each
// phase. docs/costs.md has the worst figures.
func TestAbuse(t *testing.T) {
	if testing.Short() { // times do not count
		t.Parallel()
	}
	a := newAbuse(t)
	for i, k := range attacks() {
		if testing.Short() && i%4 != 1 {
			continue // of the long suite
		}
		t.Run(k.name, func(t *testing.T) { a.runAttack(t, &k) })
	}
}
