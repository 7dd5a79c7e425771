package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attack is what one tenant writes to the API.
type attack struct {
	name string
	// create are the objects as they are made, and changes what they are changed to,
	// in one version or several. At the end they are deleted.
	create, changes func() []metav1.Object
	// budgets are those of this attack, in place of the ones that all others have, by
	// what they are for.
	budgets map[string]int64
}

// TestAbuse makes every attack beside an honest tenant, whose Services are asked and
// changed all the time, and beside another program that writes nf_tables. It prints
// what each phase took. docs/security.md has the worst figures.
func TestAbuse(t *testing.T) {
	a := newAbuse(t)
	for _, k := range attacks() {
		t.Run(k.name, func(t *testing.T) { a.run(t, &k) })
	}
	t.Run("restart-beside-200000-endpoints", a.restart)
	t.Logf("figures of all attacks:\n%s", table(a.rows))
}
