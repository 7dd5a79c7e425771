package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// fakeNodes are nodes that answer after a time.
type fakeNodes struct {
	mu                 sync.Mutex
	list               []nodes.Node
	tally              func(name string, asked int) (*nodestatus.Tally, error)
	took               func(name string) time.Duration // of a tally
	lists              time.Duration                   // of a list of Services, which then fails
	asked              map[string]int                  // tallies, by node
	others             int                             // other requests
	find               func(nodes.Node) ([]findings.Finding, error)
	now                int // requests for tallies without a response yet
	most               int
	listing, mostLists int // the same for lists of Services
}

func newFake(n int) *fakeNodes {
	f := &fakeNodes{asked: map[string]int{}, took: func(string) time.Duration { return 100 * time.Millisecond }}
	for i := n; i > 0; i-- {
		f.list = append(f.list, nodes.Node{Name: fmt.Sprint("node-", i), Pod: fmt.Sprint("pod-", i)})
	}
	f.tally = func(_ string, asked int) (*nodestatus.Tally, error) { return tallyOf(uint64(asked), asked), nil }
	return f
}

func tallyOf(connections uint64, seconds int) *nodestatus.Tally {
	return &nodestatus.Tally{
		Schema: nodestatus.TallySchema, Ready: true, Counted: true, CountedAt: time.Unix(int64(seconds), 0),
		Summary:  nodestatus.Summary{Services: 2},
		Services: []nodestatus.TallyLine{{Namespace: "shop", Name: "web", Traffic: nodestatus.Traffic{Connections: connections, Active: 3}}},
	}
}

func (f *fakeNodes) Nodes(context.Context) ([]nodes.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list), nil
}

func (f *fakeNodes) Document(ctx context.Context, _ nodes.Node, _ nodestatus.Query) (*nodestatus.Document, error) {
	f.wait(ctx, f.lists, &f.listing, &f.mostLists)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others++
	if f.lists > 0 {
		return nil, errors.New("too late")
	}
	return &nodestatus.Document{Services: []nodestatus.Service{{Namespace: "shop", Name: "cart"}, {Namespace: "shop", Name: "web"}}}, nil
}

func (f *fakeNodes) Findings(_ context.Context, n nodes.Node) ([]findings.Finding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.others++; f.find != nil {
		return f.find(n)
	}
	return nil, errors.New("no such command")
}

func (f *fakeNodes) Tally(ctx context.Context, n nodes.Node) (*nodestatus.Tally, error) {
	f.mu.Lock()
	f.asked[n.Name]++
	asked := f.asked[n.Name]
	f.mu.Unlock()
	f.wait(ctx, f.took(n.Name), &f.now, &f.most)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally(n.Name, asked)
}

// wait waits for the time of an answer, and counts how many wait.
func (f *fakeNodes) wait(ctx context.Context, took time.Duration, now, most *int) {
	count := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		*now += n
		*most = max(*most, *now)
	}
	count(1)
	defer count(-1)
	select {
	case <-ctx.Done():
	case <-time.After(took):
	}
}

// watch runs a cluster for some time, with a look at it every second for a part of that.
func watch(t *testing.T, f *fakeNodes, looking, all time.Duration, then func(c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(f)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go c.Run(ctx)
		for start := time.Now(); time.Since(start) < all; <-time.After(time.Second) {
			if time.Since(start) < looking {
				c.Watch()
			}
		}
		then(c)
		end()
		synctest.Wait()
	})
}

func TestRatesOfNodesAreAddedUp(t *testing.T) {
	f := newFake(3)
	f.tally = func(name string, asked int) (*nodestatus.Tally, error) {
		per := map[string]uint64{"node-1": 10, "node-2": 20, "node-3": 0}[name]
		return tallyOf(1000+per*uint64(asked), asked), nil
	}
	watch(t, f, time.Minute, 20*time.Second, func(c *Cluster) {
		o := c.Overview()
		var names []string
		for _, s := range o.Services {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, []string{"cart", "web"}) {
			t.Fatalf("the Services are %q", names)
		}
		cart, web := o.Services[0], o.Services[1]
		if web.Rate == nil || *web.Rate != 30 || web.Active != 9 || web.Nodes != 3 || web.State != nodestatus.StateOK {
			t.Errorf("shop/web is %+v, rate %v", web, web.Rate)
		}
		if cart.Rate == nil || *cart.Rate != 0 || cart.Nodes != 0 {
			t.Errorf("shop/cart is %+v", cart)
		}
		rows := c.Rows([][2]string{{"shop", "web"}, {"shop", "cart"}})
		if got := *rows.Rows[0].Rates[0] + 2**rows.Rows[0].Rates[1]; got != 50 || *rows.Rows[1].Rates[2] != 0 {
			t.Errorf("the rows are %+v", rows)
		}
		if n := c.Node("node-2"); *n.Node.Rate != 20 || len(n.Services) != 1 {
			t.Errorf("node-2 is %+v", n)
		}
	})
}

func TestSilentNodeCostsNoOtherAnything(t *testing.T) {
	f := newFake(3)
	f.tally = func(name string, asked int) (*nodestatus.Tally, error) {
		if name == "node-2" && asked > 2 {
			return nil, errors.New("node-2: no answer in 10s")
		}
		return tallyOf(uint64(10*asked), asked), nil
	}
	f.list = append(f.list, nodes.Node{Name: "node-4", Missing: true, Why: "no pod of kube-vmap"})
	watch(t, f, time.Hour, 5*time.Minute, func(c *Cluster) {
		o := c.Overview()
		var states []string
		for _, n := range o.Nodes {
			states = append(states, n.Name+" "+n.State)
		}
		if want := []string{"node-1 ok", "node-2 silent", "node-3 ok", "node-4 missing"}; !slices.Equal(states, want) {
			t.Errorf("the nodes are %q, want %q", states, want)
		}
		if web := o.Services[1]; *web.Rate != 20 || web.Nodes != 2 {
			t.Errorf("shop/web is %+v, rate %v", web, *web.Rate)
		}
		if r := c.Rows([][2]string{{"shop", "web"}}).Rows[0]; r.Rates[0] == nil || r.Rates[1] != nil || r.Rates[3] != nil {
			t.Errorf("unknown rates are shown: %+v", r)
		}
		if len(o.Problems) != 2 || o.Problems[0].Object != "Node node-2" || o.Problems[1].Object != "Node node-4" {
			t.Errorf("the problems are %+v", o.Problems)
		}
		// 5 minutes are 60 requests to a node that responds.
		if n := f.asked["node-2"]; n > 10 {
			t.Errorf("the node that does not answer is asked %d times", n)
		}
		if n := f.asked["node-1"]; n < 55 || n > 61 {
			t.Errorf("another node is asked %d times", n)
		}
		if f.asked["node-4"] > 0 {
			t.Error("a node without kube-vmap is asked")
		}
	})
}

func TestNodesAreNotAskedWithoutViewers(t *testing.T) {
	f := newFake(3)
	watch(t, f, 10*time.Second, 10*time.Minute, func(*Cluster) {
		if n := f.asked["node-1"]; n < 6 || n > 9 {
			t.Errorf("in the 40 s after the first look, node-1 is asked %d times", n)
		}
	})
}

// TestRequestsToManyNodesAreBounded has a thousand nodes, of which a tenth does not answer
// for 10 s.
func TestRequestsToManyNodesAreBounded(t *testing.T) {
	f := newFake(1000)
	slow := func(name string) bool { return name[len(name)-1] == '7' }
	f.took = func(name string) time.Duration {
		if slow(name) {
			return 10 * time.Second
		}
		return 100 * time.Millisecond
	}
	f.tally = func(name string, asked int) (*nodestatus.Tally, error) {
		if slow(name) {
			return nil, errors.New("no answer in 10s")
		}
		return tallyOf(uint64(5*asked), asked), nil
	}
	watch(t, f, time.Hour, 5*time.Minute, func(c *Cluster) {
		o := c.Overview()
		answers := 0
		for _, n := range o.Nodes {
			if n.State == NodeOK {
				answers++
			}
		}
		if answers != 900 || *o.Services[1].Rate != 4500 {
			t.Errorf("%d nodes answer, with %v new connections per second", answers, *o.Services[1].Rate)
		}
		if o.Every != 50 {
			t.Errorf("a round takes %v s", o.Every)
		}
		if f.most > maxInFlight {
			t.Errorf("%d nodes are asked at a time", f.most)
		}
		for name, n := range f.asked {
			if n > 9 {
				t.Fatalf("in 5 minutes, %s is asked %d times", name, n)
			}
		}
		if len(o.Problems) != 1 || o.Problems[0].Count != 100 || o.Problems[0].Object != "100 nodes" || len(o.Problems[0].Nodes) != maxNames {
			t.Errorf("the problems are %+v", o.Problems)
		}
	})
}

func TestListsOfServicesAreAskedForOneAtATime(t *testing.T) {
	f := newFake(2)
	f.lists = 3 * cataloguePeriod
	watch(t, f, time.Hour, 10*time.Minute, func(*Cluster) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.mostLists != 1 || f.others < 9 {
			t.Errorf("%d at a time, %d in all", f.mostLists, f.others)
		}
	})
}

func TestSlowAndLargeAnswersAreRare(t *testing.T) {
	f := newFake(2)
	f.took = func(string) time.Duration { return time.Second }
	watch(t, f, time.Hour, 10*time.Minute, func(*Cluster) {
		if n := f.asked["node-1"]; n != 12 && n != 13 {
			t.Errorf("answers of 1 s are asked for %d times in 10 minutes, want one per %s", n, tookFactor*time.Second)
		}
	})
	f = newFake(20)
	f.tally = func(_ string, asked int) (*nodestatus.Tally, error) {
		out := tallyOf(1, asked)
		for i := range 9_999 {
			out.Services = append(out.Services, nodestatus.TallyLine{Namespace: "x", Name: fmt.Sprintf("%05d", i), Traffic: nodestatus.Traffic{Connections: 1}})
		}
		return out, nil
	}
	watch(t, f, time.Hour, 30*time.Second, func(c *Cluster) {
		if o := c.Overview(); o.Every != 8 || len(o.Services) != 10_001 {
			t.Errorf("a round of 20 times 10,000 Services takes %v s, with %d Services", o.Every, len(o.Services))
		}
	})
}

// TestRatesOfASlowNodeDoNotWait: a rate needs two answers, so the second question comes early.
func TestRatesOfASlowNodeDoNotWait(t *testing.T) {
	c := &Cluster{}
	for tallies, want := range []time.Duration{1: minPeriod, 2: tookFactor * time.Second} {
		if got := c.period(&node{tallies: tallies, took: time.Second}); tallies > 0 && got != want {
			t.Errorf("after %d answers of a second, a node is asked after %s, want %s", tallies, got, want)
		}
	}
}

func TestProblemsOfNodesAreMerged(t *testing.T) {
	f := newFake(5)
	f.tally = func(name string, asked int) (*nodestatus.Tally, error) {
		out := tallyOf(1, asked)
		out.Services = append(out.Services, nodestatus.TallyLine{Namespace: "shop", Name: "cart", State: nodestatus.ReasonNoEndpoints})
		if name == "node-3" {
			out.Services[0].State, out.Services[0].Problem = model.ProblemRefused, "refused by the kernel"
		}
		return out, nil
	}
	watch(t, f, time.Minute, 10*time.Second, func(c *Cluster) {
		o := c.Overview()
		if len(o.Problems) != 2 || o.Problems[0].Count != 5 || o.Problems[0].Name != "cart" || o.Problems[0].Text == "" {
			t.Fatalf("the problems are %+v", o.Problems)
		}
		if p := o.Problems[1]; p.Reason != model.ProblemRefused || !slices.Equal(p.Nodes, []string{"node-3"}) || p.Text != "refused by the kernel" {
			t.Errorf("the other one is %+v", p)
		}
		for _, n := range o.Nodes {
			if want := n.Name == "node-3"; want != (n.State == NodeProblem) {
				t.Errorf("%s is %s: what all nodes have is no problem of a node", n.Name, n.State)
			}
		}
		if r := c.Rows([][2]string{{"shop", "web"}}).Rows[0]; !slices.Equal(r.Bad, []int{2}) {
			t.Errorf("shop/web is bad on %v", r.Bad)
		}
		if s := o.Services[1]; s.Severity != nodestatus.SeverityProblem || s.Bad != 1 {
			t.Errorf("shop/web is %+v", s)
		}
	})
}

func TestNodeIsWaitedForUntilNodesAreListed(t *testing.T) {
	c := New(newFake(1))
	if known, listed := c.Knows("node-9"); known || listed || c.Node("node-9").Node.State != NodeWaiting {
		t.Errorf("before the list, node-9 is %+v", c.Node("node-9"))
	}
	watch(t, newFake(1), time.Minute, 2*time.Second, func(c *Cluster) {
		if known, listed := c.Knows("node-9"); known || !listed {
			t.Error("there is a node-9")
		}
	})
}

func TestProblemsAreOrderedAndListedOnce(t *testing.T) {
	answered := func(name string, tally []nodestatus.Problem, list ...findings.Finding) *node {
		n := &node{Node: nodes.Node{Name: name}, at: time.Now(), findings: list}
		n.tally.Ready, n.tally.Problems = true, tally
		return n
	}
	unready := findings.Finding{Severity: nodestatus.SeverityProblem, Object: "Service shop/web", Namespace: "shop", Name: "web", Reason: nodestatus.ReasonNotReady}
	taken := findings.Finding{Severity: nodestatus.SeverityProblem, Object: "Service a/a:http", Namespace: "a", Name: "a", Reason: "AddressConflict", Field: "spec.externalIPs", Text: "taken"}
	notice, problem := taken, taken
	notice.Severity, notice.Reason = nodestatus.SeverityNotice, nodestatus.ReasonSilent
	problem.Reason = nodestatus.ReasonSilent
	all := merge(
		answered("node-1", []nodestatus.Problem{{Object: taken.Object, Reason: taken.Reason, Text: taken.Text}}, unready, taken, notice),
		answered("node-2", nil, problem), &node{Node: nodes.Node{Name: "node-3", Missing: true, Why: "no pod is on node-3"}},
		&node{Node: nodes.Node{Name: "node-4", Missing: true, Why: "no pod is on node-4"}})
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprint(p.Object, " ", p.Namespace, " ", p.Severity, " ", p.Reason, " ", p.Count))
	}
	want := []string{
		"2 nodes  Problem NoKubeVmap 2", "Service a/a:http a Problem AddressConflict 1", "Service a/a:http a Problem Silent 2",
		"Service shop/web shop Problem NotReady 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the problems are %q, not %q", got, want)
	}
}

// TestFindingsEndWithAnError has a node that answers the first question for its findings only, and
// a Service that has ended.
func TestFindingsEndWithAnError(t *testing.T) {
	f := newFake(1)
	asked := 0
	f.find = func(nodes.Node) ([]findings.Finding, error) {
		if asked++; asked > 1 {
			return nil, errors.New("an older version has no such command")
		}
		return []findings.Finding{{Severity: nodestatus.SeverityProblem, Object: "Service shop/old", Namespace: "shop", Name: "old", Reason: nodestatus.ReasonRefuses}}, nil
	}
	for after, want := range map[time.Duration]int{10 * time.Second: 1, 5 * time.Minute: 0} {
		asked = 0
		watch(t, f, time.Hour, after, func(c *Cluster) {
			if o := c.Overview(); len(o.Problems) != want || len(o.Services) != 2+want {
				t.Errorf("after %s, the problems are %+v, of %d Services", after, o.Problems, len(o.Services))
			}
		})
	}
}

// TestAnswersAreOfOnePod has another pod, and a new list of nodes, while the first one is asked.
func TestAnswersAreOfOnePod(t *testing.T) {
	f := newFake(1)
	f.took = func(string) time.Duration {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.list[0].Pod = "pod-2"
		return listPeriod + time.Second
	}
	var asked []string
	f.find = func(n nodes.Node) ([]findings.Finding, error) {
		asked = append(asked, n.Pod)
		return nil, nil
	}
	watch(t, f, time.Hour, listPeriod+minPeriod, func(*Cluster) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !slices.Equal(asked, []string{"pod-1"}) {
			t.Errorf("after the tally of pod-1, the findings of %q are asked for", asked)
		}
	})
}

// TestServicesThatNoNodeReportsAreForgotten has nodes that report a Service with another name
// each time: with connections, or with a problem.
func TestServicesThatNoNodeReportsAreForgotten(t *testing.T) {
	f := newFake(2)
	f.tally = func(name string, asked int) (*nodestatus.Tally, error) {
		out := tallyOf(uint64(asked), asked)
		out.Services = append(out.Services, nodestatus.TallyLine{Namespace: "shop", Name: fmt.Sprint(name, "-", asked), State: nodestatus.ReasonNoEndpoints})
		return out, nil
	}
	watch(t, f, time.Hour, time.Hour, func(c *Cluster) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.services); n < 4 || n > 40 || c.services[key{"shop", "web"}] == nil || c.services[key{"shop", "cart"}] == nil || f.asked["node-1"] < 100 {
			t.Errorf("%d Services are known after %d tallies", n, f.asked["node-1"])
		}
	})
}
