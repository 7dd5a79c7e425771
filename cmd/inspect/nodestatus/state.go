package nodestatus

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
)

// External is the kind of a frontend in a document from the kernel, which does not
// distinguish external IPs from addresses of a load balancer.
const External = "External"

// Verdicts of frontends.
const (
	VerdictBalance = "Balance"
	VerdictReject  = "Reject"
	VerdictDrop    = "Drop"
	VerdictHold    = "Hold"
	// VerdictElsewhere is of a frontend that only other nodes serve; in no document from the kernel.
	VerdictElsewhere = "Elsewhere"
)

// StateOf returns the state of a Service of the document, as far as its source knows it.
func (d *Document) StateOf(s *Service) string {
	state := s.State()
	if d.Source == FromKernel && state == StateOK {
		return StateProgrammed
	}
	return state
}

// State returns the worst state of the Service. A problem whose reason has no state of
// its own makes it Unusable.
func (s *Service) State() string {
	for _, reason := range []string{model.ProblemRefused, model.ProblemMemory, model.ProblemConflict} {
		if s.has(reason) {
			return reason
		}
	}
	if slices.ContainsFunc(s.Problems, func(p Problem) bool {
		return p.Reason != ReasonNoPort && p.Reason != model.ProblemOpen
	}) {
		return model.ProblemUnusable
	}
	verdicts, rejected, refuses := map[string]bool{}, "", false
	for i := range s.Ports {
		if len(s.Ports[i].Frontends) == 0 {
			return ReasonNotProgrammed
		}
		rejected, refuses = cmp.Or(rejected, s.Ports[i].Rejected), refuses || s.Ports[i].allRefuse()
		for k := range s.Ports[i].Frontends {
			verdicts[s.Ports[i].Frontends[k].Verdict] = true
		}
	}
	switch {
	case s.has(ReasonNoPort):
		return ReasonNoPort
	case verdicts[VerdictReject]:
		return cmp.Or(rejected, ReasonNoEndpoints)
	case verdicts[VerdictHold]:
		return ReasonHeld
	case verdicts[VerdictDrop]:
		return ReasonNoneLocal
	case refuses:
		return ReasonRefuses
	case verdicts[VerdictElsewhere]:
		return ReasonElsewhere
	case s.has(model.ProblemOpen):
		return model.ProblemOpen
	}
	return StateOK
}

// allRefuse reports whether each endpoint that gets connections was seen to refuse some.
func (p *Port) allRefuse() bool {
	used, refuse := 0, 0
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Used() {
			used, refuse = used+1, refuse+min(1, e.Refused)
		}
	}
	return used > 0 && refuse == used
}

func (s *Service) has(reason string) bool {
	return slices.ContainsFunc(s.Problems, func(p Problem) bool { return p.Reason == reason })
}

// At returns the frontend's address, port and protocol: "10.96.0.10:53/udp", or
// "*:30053/udp" for a node port.
func (f *Frontend) At(protocol string) string {
	host := "*:" + strconv.Itoa(int(f.Port))
	if f.Address != "" {
		host = net.JoinHostPort(f.Address, strconv.Itoa(int(f.Port)))
	}
	return host + "/" + strings.ToLower(protocol)
}

// AllowsAll reports whether all clients are let in that are not denied.
func (f *Frontend) AllowsAll() bool {
	return len(f.Sources) == 1 && strings.HasSuffix(f.Sources[0], "/0")
}

// At returns the endpoint's address and port, or the address if it has no port.
func (e *Endpoint) At() string {
	if e.Port == 0 {
		return e.Address
	}
	return net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port)))
}

// Used reports whether the endpoint gets connections, although perhaps not now.
func (e *Endpoint) Used() bool { return e.Slot != nil || e.LocalSlot != nil || e.Reason == ReasonBusy }

// Shares returns the number of slots with the port's endpoints in the cluster, or
// of this node; zero if each endpoint has one.
func (p *Port) Shares(local bool) (n int) {
	for i := range p.Endpoints {
		n += p.Endpoints[i].share(local)
	}
	return n
}

// SharePercents returns a function that returns an endpoint's part of the new connections,
// in percent of those to the whole cluster, or else to this node; false if it gets none.
func (p *Port) SharePercents() func(e *Endpoint) (percent float64, gets bool) {
	all := [...]int{p.Shares(false), p.Shares(true)}
	var alike [2]int // endpoints, where each has one slot
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Slot != nil {
			alike[0]++
		} else if e.LocalSlot != nil {
			alike[1]++
		}
	}
	return func(e *Endpoint) (percent float64, gets bool) {
		which := 0
		if e.Slot == nil && e.LocalSlot != nil {
			which = 1
		}
		switch {
		case !e.Used():
			return 0, false
		case all[which] > 0:
			return 100 * float64(e.share(which == 1)) / float64(all[which]), true
		case e.Slot == nil && e.LocalSlot == nil:
			return 0, true // busy
		}
		return 100 / float64(alike[which]), true
	}
}

func (e *Endpoint) share(local bool) int {
	if local {
		return e.LocalShare
	}
	return e.Share
}

// AddrPort returns the endpoint's address and port.
func (e *Endpoint) AddrPort() netip.AddrPort {
	a, _ := netip.ParseAddr(e.Address) // the text of a netip.Addr
	return netip.AddrPortFrom(a, e.Port)
}

// Kinds returns all kinds of frontends.
func Kinds() (out []string) {
	for k := model.KindClusterIP; k <= model.KindLoadBalancerIP; k++ {
		out = append(out, k.String())
	}
	return append(out, External)
}

// Words for the values of frontends, by the values of package model.
var (
	Policies = [...]string{model.PolicyCluster: "Cluster", model.PolicyLocal: "Local"}
	Verdicts = [...]string{
		model.VerdictBalance: VerdictBalance, model.VerdictReject: VerdictReject, model.VerdictDrop: VerdictDrop,
		model.VerdictHold: VerdictHold, model.VerdictElsewhere: VerdictElsewhere,
	}
	Masquerades = [...]string{
		model.MasqueradeNever: "never", model.MasqueradeOffPod: "off-pod", model.MasqueradeAlways: "always",
	}
)

// Plural returns a number and a noun: "1 node", "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// JoinFirst joins the first names of a list, at most limit, and adds how many more of all there
// are: "a, b and 3 more".
func JoinFirst(list []string, all, limit int) string {
	text := strings.Join(list[:min(len(list), limit)], ", ")
	if more := all - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Duration returns a duration in its two largest units: 3d4h, 2h5m, 4m10s, 3s.
func Duration(d time.Duration) string {
	d = max(d.Round(time.Second), 0)
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.String()
}

// Severity returns the severity of the Service's state. Load balancers avoid a node without
// endpoints; pods on it cannot. A Service may sleep until a client waits for it.
func (s *Service) Severity() string {
	state := s.State()
	isProblem := func(p Port) bool {
		return state == ReasonHeld && p.Waiting != nil ||
			state == ReasonNoneLocal && slices.ContainsFunc(p.Frontends, func(f Frontend) bool {
				return f.Verdict == VerdictDrop && f.Kind == model.KindClusterIP.String()
			})
	}
	if slices.ContainsFunc(s.Ports, isProblem) {
		return SeverityProblem
	}
	return SeverityOf(state)
}

// Summary counts the Services and problems of a document. A Service counts once, however
// many ports or problems it has. Problems of other objects are counted separately, since
// no row of a list of Services shows them.
type Summary struct {
	Services int `json:"services"`
	Problems int `json:"problems"` // Services of severity Problem
	Notices  int `json:"notices"`  // Services of severity Notice
	Others   int `json:"others"`   // problems of other objects
}

// Count counts a Service by its severity.
func (s *Summary) Count(severity string) {
	s.Services++
	switch severity {
	case SeverityProblem:
		s.Problems++
	case SeverityNotice:
		s.Notices++
	}
}

// Summary returns the summary of the document.
func (d *Document) Summary() (out Summary) {
	for i := range d.Problems {
		if SeverityOf(d.Problems[i].Reason) == SeverityProblem {
			out.Others++
		}
	}
	for i := range d.Services {
		out.Count(d.Services[i].Severity())
	}
	return out
}

// FirstProblem returns the first problem of the Service in one line, with the number of
// further ones; empty if it has none.
func (s *Service) FirstProblem() string {
	if len(s.Problems) == 0 {
		return ""
	}
	text := strings.ReplaceAll(s.Problems[0].Text, "\n", "; ")
	if more := len(s.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// EndpointCount counts the endpoints of the Service, over all ports and both families.
func (s *Service) EndpointCount() Addresses {
	if s.Addresses != nil {
		return *s.Addresses
	}
	used := map[string]bool{}
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			e := &s.Ports[i].Endpoints[k]
			if e.Reason == ReasonGone {
				continue
			}
			used[e.Address] = used[e.Address] || e.Used()
		}
	}
	out := Addresses{All: len(used)}
	for _, yes := range used {
		if yes {
			out.Used++
		}
	}
	return out
}

// EndpointText returns the number of endpoints that get connections and of those in
// EndpointSlices: "2/3". The kernel knows only the first number.
func (d *Document) EndpointText(s *Service) string {
	n := s.EndpointCount()
	if d.Source == FromKernel {
		return strconv.Itoa(n.Used)
	}
	return fmt.Sprintf("%d/%d", n.Used, n.All)
}

// Traffic counts the connections of all ports.
func (s *Service) Traffic() (sum Traffic) {
	for i := range s.Ports {
		sum.Add(&s.Ports[i].Traffic)
	}
	return sum
}

// TallySchema is the version of the form of a [Tally].
const TallySchema = 1

// Tally is what a program needs to add up the connections of many nodes: much less than a
// [Document]. Services without connections whose state is OK are only counted.
type Tally struct {
	Schema    int       `json:"schema"`
	Source    string    `json:"source"`
	Time      time.Time `json:"time"`
	Node      string    `json:"node,omitempty"`
	Version   string    `json:"version,omitempty"`
	Ready     bool      `json:"ready"`
	Counted   bool      `json:"counted"`
	CountedAt time.Time `json:"countedAt,omitzero"`
	Summary   Summary   `json:"summary"`
	// Services are sorted by namespace and name.
	Services []TallyLine `json:"services"`
	Problems []Problem   `json:"problems,omitempty"`
}

// TallyLine is a Service in a [Tally].
type TallyLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state,omitempty"` // empty for OK
	// Severity is empty if it is the state's.
	Severity string `json:"severity,omitempty"`
	Problem  string `json:"problem,omitempty"`
	Traffic
}

// Tally returns the tally of a document.
func (d *Document) Tally() *Tally {
	out := &Tally{
		Schema: TallySchema, Source: d.Source, Time: d.Time, Node: d.Node, Version: d.Version, Ready: d.Ready,
		Counted: d.Counted, CountedAt: d.CountedAt, Summary: d.Summary(), Services: []TallyLine{}, Problems: d.Problems,
	}
	for i := range d.Services {
		s := &d.Services[i]
		line := TallyLine{Namespace: s.Namespace, Name: s.Name, Traffic: s.Traffic()}
		if state := s.State(); state != StateOK {
			line.State, line.Problem = state, s.FirstProblem()
			if severity := s.Severity(); severity != SeverityOf(state) {
				line.Severity = severity
			}
		}
		if line.State != "" || line.Connections > 0 || line.Active > 0 {
			out.Services = append(out.Services, line)
		}
	}
	return out
}
