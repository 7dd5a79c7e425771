package get

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"kube-vmap/cmd/inspect/nodes/onetest"
	"kube-vmap/cmd/inspect/nodestatus"
)

var update = flag.Bool("update", false, "rewrite what commands print")

func document(t *testing.T) *nodestatus.Document {
	t.Helper()
	text, err := os.ReadFile("testdata/document.yaml")
	must(t, err)
	d := &nodestatus.Document{}
	must(t, yaml.UnmarshalStrict(text, d))
	return d
}

func source(d *nodestatus.Document) onetest.Node {
	return func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
		out := *d
		out.Services = slices.DeleteFunc(slices.Clone(d.Services), func(s nodestatus.Service) bool {
			return q.Namespace != "" && q.Namespace != s.Namespace || q.Name != "" && q.Name != s.Name
		})
		return &out, nil
	}
}

// options parses a command line, "svc web -n shop".
func options(line string) (o Options) {
	o.Namespace = "default"
	words := strings.Fields(line)
	for i := 0; i < len(words); i++ {
		value := func() string { i++; return words[i] }
		switch words[i] {
		case "-n":
			o.Namespace = value()
		case "-A":
			o.AllNamespaces = true
		case "-o":
			o.Output = value()
		case "--sort-by":
			o.SortBy = value()
		case "--no-headers":
			o.NoHeaders = true
		case "--field-selector":
			o.FieldSelector = value()
		default:
			o.Args = append(o.Args, words[i])
		}
	}
	return o
}

// TestCommandsPrint runs the command lines that are the names of the archive's sections.
func TestCommandsPrint(t *testing.T) {
	const file = "testdata/get.txtar"
	archive, err := txtar.ParseFile(file)
	must(t, err)
	for i := range archive.Files {
		f := &archive.Files[i]
		t.Run(f.Name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := Run(t.Context(), options(f.Name), source(document(t)), &stdout, &stderr)
			got := stdout.String()
			for line := range strings.Lines(stderr.String()) {
				got += "stderr: " + line
			}
			if err != nil {
				got += "error: " + err.Error() + "\n"
			}
			if *update {
				f.Data = []byte(got)
			}
			if diff := cmp.Diff(string(f.Data), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if *update {
		must(t, os.WriteFile(file, txtar.Format(archive), 0o644))
	}
}

// TestPrintedNamesAreAccepted uses all names as arguments.
func TestPrintedNamesAreAccepted(t *testing.T) {
	for _, r := range resources {
		var names, again bytes.Buffer
		must(t, Run(t.Context(), options(r.short+" -A -o name"), source(document(t)), &names, &bytes.Buffer{}))
		all := strings.Join(strings.Fields(names.String()), " ")
		for _, line := range []string{all, r.plural + " " + all} {
			again.Reset()
			err := Run(t.Context(), options(line+" -A -o name"), source(document(t)), &again, &bytes.Buffer{})
			// Rows with the same name in both families come together.
			got, want := strings.Fields(again.String()), strings.Fields(names.String())
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || len(all) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s: %v\n%s\nnot\n%s", line, err, &again, &names)
			}
		}
	}
}

func TestConnectionsOnTheFastPathAreShownIfAskedFor(t *testing.T) {
	i := &item{d: document(t), traffic: nodestatus.Traffic{FastPath: 3}}
	for want, h := range map[string]*nodestatus.Health{"": {}, "3": {FastPath: &nodestatus.FastPath{Reason: "off now"}}} {
		if i.d.Health = h; offloaded.text(i) != want {
			t.Errorf("got %q, want %q", offloaded.text(i), want)
		}
	}
}

func TestSourceIsPrintedOnStderr(t *testing.T) {
	var stdout, stderr bytes.Buffer
	d := document(t)
	d.Ready = false
	d.Problems = []nodestatus.Problem{
		{Object: "Node worker-1", Reason: nodestatus.ReasonUnread, Text: "tracked connections: no\nway"},
		{Object: "EndpointSlice shop/x", Reason: "Unusable", Text: "bad"},
	}
	d.Services[0].Ports[0].NotListed = 9
	must(t, Run(t.Context(), options("ep -A"), source(d), &stdout, &stderr))
	if want := "The first state is not programmed yet; --kernel lists what an earlier process left.\nNode worker-1: tracked connections: no; way\n" +
		"9 rows are not listed, of endpoints without the port, or ports not programmed.\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
	failure := errors.New("no source")
	err := Run(t.Context(), options("svc -A"), onetest.Node(func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		return nil, failure
	}), &stdout, &stderr)
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

// TestOnlyNeededDataIsQueried checks that a name is part of the query.
func TestOnlyNeededDataIsQueried(t *testing.T) {
	for line, want := range map[string]nodestatus.Query{
		"svc":                {Namespace: "default"},
		"svc -A":             {},
		"svc web -n shop":    {Namespace: "shop", Name: "web"},
		"svc/web":            {Namespace: "default", Name: "web"},
		"svc web app":        {Namespace: "default"},
		"ep web -n shop":     {Namespace: "shop"},
		"fe 10.96.0.10 -A":   {},
		"services -n shop":   {Namespace: "shop"},
		"Service web -n x":   {Namespace: "x", Name: "web"},
		"frontends fe -n x":  {Namespace: "x"},
		"endpoints -n other": {Namespace: "other"},
	} {
		var got []nodestatus.Query
		_ = Run(t.Context(), options(line), onetest.Node(func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
			got = append(got, q)
			return &nodestatus.Document{}, nil
		}), &bytes.Buffer{}, &bytes.Buffer{})
		if fmt.Sprint(got) != fmt.Sprint([]nodestatus.Query{want}) {
			t.Errorf("%s: asked %+v, want %+v", line, got, want)
		}
	}
}

// TestServicesAreChosenByLabels has labels that only the API server knows.
func TestServicesAreChosenByLabels(t *testing.T) {
	o := options("svc -A -o name")
	all := document(t)
	o.Has = func(namespace, name string) bool {
		return namespace == all.Services[0].Namespace && name == all.Services[0].Name
	}
	var out bytes.Buffer
	if err := Run(t.Context(), o, source(all), &out, &bytes.Buffer{}); err != nil || out.String() != "service/"+all.Services[0].Name+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
