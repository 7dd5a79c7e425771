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

// TestAbuse runs every attack while an honest tenant's Services are asked and changed all
// the time, and while another program writes to nf_tables. It prints the cost of each
// phase. docs/costs.md has the worst figures.
func TestAbuse(t *testing.T) {
	a := newAbuse(t)
	for _, k := range attacks() {
		t.Run(k.name, func(t *testing.T) { a.runAttack(t, &k) })
	}
	t.Run("restart-beside-200000-endpoints", a.restart)
	t.Logf("figures of all attacks:\n%s", table(a.rows))
}
