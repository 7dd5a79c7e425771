package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

// frontend returns a node port whose pool has a scheduler number, to tell versions apart.
func frontend(port uint16, version int) model.Frontend {
	return model.Frontend{Match: model.Match{Port: port}, Pool: &model.Pool{UID: fmt.Sprint(version)}}
}

// TestUpdate follows commits. Their frontends with the version 0 do not concern the follower.
func TestUpdate(t *testing.T) {
	all := map[model.Match]string{}
	for _, step := range []struct {
		name      string
		committed sync.Committed
		want      string // what is kept, and what was removed
	}{
		{"the first", sync.Committed{Full: true, Set: []model.Frontend{frontend(1, 1), frontend(2, 0), frontend(3, 1)}}, "1:1 3:1"},
		{"changed, added, removed", sync.Committed{
			Set: []model.Frontend{frontend(1, 2), frontend(4, 1)}, Removed: []model.Match{{Port: 3}, {Port: 2}},
		}, "1:2 4:1 -3:1"},
		{"no concern any longer", sync.Committed{Set: []model.Frontend{frontend(4, 0)}}, "1:2 -4:1"},
		{"all again, of which one was removed unseen", sync.Committed{
			Full: true, Set: []model.Frontend{frontend(5, 1)}, Removed: []model.Match{{Port: 6}},
		}, "5:1 -1:2"},
		{"nothing", sync.Committed{}, "5:1"},
		{"all again, the same", sync.Committed{Full: true, Set: []model.Frontend{frontend(5, 1)}}, "5:1"},
		{"all again, without anything", sync.Committed{Full: true}, "-5:1"},
	} {
		var got []string
		follow.Update(all, step.committed, func(f *model.Frontend, before string, known bool) (string, bool) {
			if was, is := all[f.Match]; was != before || is != known {
				t.Errorf("%s: before %q, %t", step.name, before, known)
			}
			return f.Pool.UID, f.Pool.UID != "0"
		}, func(m model.Match, before string) { got = append(got, fmt.Sprintf("-%d:%s", m.Port, before)) })
		for m, version := range all {
			got = append(got, fmt.Sprintf("%d:%s", m.Port, version))
		}
		slices.SortFunc(got, func(a, b string) int { return -strings.Compare(a, b) }) // removed ones last
		slices.Sort(got[:len(got)-strings.Count(strings.Join(got, " "), "-")])
		if s := strings.Join(got, " "); s != step.want {
			t.Errorf("%s: %s, want %s", step.name, s, step.want)
		}
	}
}
