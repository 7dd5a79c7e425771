package top

import (
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/top/toptest"
)

func TestColumnsDropByImportance(t *testing.T) {
	for _, c := range []struct {
		room int
		want string
	}{
		{200, "NAMESPACE SERVICE CONN/S ACTIVE CONNECTIONS ENDPOINTS STATUS"},
		{100, "NAMESPACE SERVICE CONN/S ACTIVE CONNECTIONS ENDPOINTS STATUS"},
		{80, "NAMESPACE SERVICE CONN/S ACTIVE ENDPOINTS STATUS"},
		{66, "NAMESPACE SERVICE CONN/S ACTIVE STATUS"},
		{50, "NAMESPACE SERVICE CONN/S ACTIVE"},
		{40, "SERVICE CONN/S ACTIVE"},
		{30, "SERVICE CONN/S"},
		{20, "SERVICE"},
		{1, "SERVICE"},
	} {
		columns := overviewColumns()
		var got []string
		for i, w := range Fit(columns, sample(), c.room) {
			if w > 0 {
				got = append(got, columns[i].Title)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("in %d columns: %v, want %s", c.room, got, c.want)
		}
	}
}

func TestColumnsFitTheWidth(t *testing.T) {
	s := sheetOf(toptest.Document(0, toptest.Service(strings.Repeat("n", 63), strings.Repeat("s", 63), 1, 1)), serviceRows, nil)
	for room := 10; room < 400; room++ {
		sum := Mark
		for _, w := range Fit(overviewColumns(), s, room) {
			if w > 0 {
				sum += w + Gap
			}
		}
		if sum > room {
			t.Errorf("in %d columns they take %d", room, sum)
		}
	}
}
