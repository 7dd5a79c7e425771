package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/healthtest"
	"kube-vmap/model"
)

// rows are the rows of a cluster with one node of each kind.
func rows() []Row {
	api := func(h *nodestatus.Health) (*Lag, error) {
		switch h.Position("Service") {
		case "":
			return nil, nil
		case "1000":
			return &Lag{1, 2}, nil
		}
		return &Lag{}, nil
	}
	well := func(_ *nodestatus.Document, h *nodestatus.Health) {
		h.Positions = []nodestatus.Position{{Kind: "Service", ResourceVersion: "1003"}, {Kind: "EndpointSlice", ResourceVersion: "1003"}}
	}
	node := func(name string) nodes.Node { return nodes.Node{Name: name} }
	out := []Row{
		NewRow(node("well"), healthtest.Document(well), nil, api),
		NewRow(node("repaired"), healthtest.Document(well, func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Tables[model.IPv6].State = nodestatus.TableOpen
			h.Repairs = nodestatus.Count{Count: 3, Last: healthtest.Now.Add(-time.Minute)}
			h.Refused = nodestatus.Refused{Objects: 1, Conflicts: 1}
		}), nil, api),
		NewRow(node("behind"), healthtest.Document(func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Positions[0].FailingSince, h.Positions[0].Error = healthtest.Now.Add(-time.Minute), "connection refused"
		}), nil, api),
		NewRow(node("manifests"), healthtest.Document(func(_ *nodestatus.Document, h *nodestatus.Health) { h.Positions = nil }), nil, api),
		NewRow(nodes.Node{Name: "unready", Why: "pod p is not ready"}, healthtest.Document(well), nil, api),
		NewRow(nodes.Node{Name: "absent", Missing: true}, nil, &nodes.MissingError{Why: "no pod of kube-vmap is on this node"}, api),
		NewRow(nodes.Node{Name: "later-1", Missing: true, Absent: true}, nil, &nodes.MissingError{Why: "no pod of kube-vmap is on this node"}, api),
		NewRow(nodes.Node{Name: "later-2", Missing: true, Absent: true}, nil, &nodes.MissingError{Why: "no pod of kube-vmap is on this node"}, api),
		NewRow(node("dead"), nil, errors.New("no answer within 10s (--node-timeout)"), api),
		NewRow(node("old"), nil, &nodes.VersionError{Version: "v0.1.0", Command: "status"}, api),
		NewRow(node("older"), &nodestatus.Document{Version: "v0.1.1"}, nil, api),
		NewRow(node("evil"), healthtest.Document(well, func(d *nodestatus.Document, h *nodestatus.Health) {
			d.Version = "v1\x1b[2J"
			h.Warnings = nodestatus.Count{Count: 1, Last: healthtest.Now, Text: "\x1b]0;" + strings.Repeat("x", 200)}
		}), nil, api),
	}
	sortRows(out)
	return out
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	must(t, writeTable(&out, "", rows()))
	want := `NODE        VERSION   READY   LAG   REFUSED   REPAIRS   OWNED       WARNINGS   STATUS
dead        -         -       -     -         -         -           -          no answer within 10s (--node-timeout)
old         v0.1.0    -       -     -         -         -           -          runs kube-vmap v0.1.0, which has no "kube-vmap status"
older       v0.1.1    -       -     -         -         -           -          runs kube-vmap v0.1.1, which does not report its health
absent      -         False   -     -         -         -           -          no pod of kube-vmap is on this node
behind      v1.2.3    True    3     0         0         IPv4,IPv6   0          behind the API server: 1 Service and 2 EndpointSlices are newer than what it has seen (and 1 more)
unready     v1.2.3    False   0     0         0         IPv4,IPv6   0          pod p is not ready
evil        v1?[2J    True    0     0         0         IPv4,IPv6   1          logged 0s ago: ?]0;` + strings.Repeat("x", 200) + `
repaired    v1.2.3    True    0     2         3         IPv4        0          tables that another program changed were repaired, last 1m0s ago; 3 times since the start (and 2 more)
manifests   v1.2.3    True    -     0         0         IPv4,IPv6   0          OK
well        v1.2.3    True    0     0         0         IPv4,IPv6   0          OK
2 nodes without kube-vmap: later-1, later-2
12 nodes: 3 not known, 3 with problems, 2 with notices; 4 versions of kube-vmap
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestWideTable(t *testing.T) {
	var out bytes.Buffer
	must(t, writeTable(&out, "wide", rows()))
	for _, want := range []string{
		"RUNNING   LAST-SYNC   SERVICES-AT   SLICES-AT   TRACKED   FAST-PATH   TAKE-OVER   STATUS\n",
		"1d2h      1m0s        1003          1003        -         -           done        OK\n", strings.Repeat("x", 200) + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestJSONHasEveryNode(t *testing.T) {
	var out bytes.Buffer
	must(t, writeTable(&out, "json", rows()))
	var read struct {
		Items   []Row
		Summary summary
	}
	must(t, json.Unmarshal(out.Bytes(), &read))
	if len(read.Items) != 12 || fmt.Sprint(read.Summary) != fmt.Sprint(summarize(rows())) || *read.Items[4].Lag != (Lag{1, 2}) {
		t.Errorf("read %+v", read)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
