package sync

import (
	"fmt"
	"strings"
	"testing"

	"kube-vmap/model"
)

// TestListsAreHalvedBetweenServices names Services by the first letter of their items.
func TestListsAreHalvedBetweenServices(t *testing.T) {
	of := func(item string) model.ServiceName { return model.ServiceName{Name: item[:1]} }
	for list, want := range map[string]string{
		"b1 a1 b2 a2 a3 b3":    "[a1 a2 a3] [b1 b2 b3] true",
		"a1 a2 a3 a4 a5 b1":    "[a1 a2 a3 a4 a5] [b1] true",
		"a1 b1 b2 b3 b4 b5 b6": "[a1] [b1 b2 b3 b4 b5 b6] true",
		"a1 a2":                "[a1 a2] [] false",
	} {
		if one, other, divided := halve(strings.Fields(list), of); fmt.Sprint(one, other, divided) != want {
			t.Errorf("%s: %s, %s, %t, want %s", list, one, other, divided, want)
		}
	}
}
