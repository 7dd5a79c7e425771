package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// A reporter reports problems of objects, in log lines and as events.
type reporter struct {
	*Notices
	services *model.ServiceMap
	// node are the problems of the node that were reported last, by reason.
	node     map[string]string
	nodeName string
	// owned reports that the tables' owner was reported.
	owned bool
}

func newReporter(c Config, services *model.ServiceMap, log *slog.Logger) *reporter {
	return &reporter{
		Notices: NewNotices(c.Recorder, log), services: services, node: map[string]string{}, nodeName: c.NodeName,
	}
}

// unusable reports an object that is not served, wholly or in part.
func (r *reporter) unusable(o Object, text string) {
	if len(text) > maxNotice {
		text = strings.ToValidUTF8(text[:maxNotice], "") + "..."
	}
	r.Notify(o, model.ProblemUnusable, text).Warn("object unusable, wholly or in part", "object", o.String(), "err", text)
}

// openToAll reports a Service that is open to more clients than its author may expect.
func (r *reporter) openToAll(o Object, text string) {
	o = r.service(model.ServiceName{Namespace: o.Namespace, Name: o.Name})
	r.Notify(o, model.ProblemOpen, text).Warn("Service open to all clients", "service", o.Namespace+"/"+o.Name, "reason",
		text)
}

// conflicts reports lost claims: one of each Service, and how many more it lost.
func (r *reporter) conflicts(conflicts []model.Conflict) {
	lost := map[model.ServiceName]int{}
	for _, c := range conflicts {
		lost[c.Loser.ServiceName]++
	}
	for _, c := range conflicts {
		n := lost[c.Loser.ServiceName]
		if n == 0 {
			continue // reported
		}
		lost[c.Loser.ServiceName] = 0
		note := c.Match.String() + " is held by Service " + c.Winner.String() +
			", which is older or whose own address it is, and not served for this one"
		if n > 1 {
			note += fmt.Sprintf("; so are %d more of its addresses and ports", n-1)
		}
		log := r.Notify(r.service(c.Loser.ServiceName), model.ProblemConflict, note)
		log.Warn("another Service holds the address and port",
			"match", c.Match.String(), "winner", c.Winner.String(), "loser", c.Loser.String(), "more", n-1)
	}
}

// nodePortAddrs warns if node ports are served on more addresses than configured, or on
// none. A family in which no Service has a node port needs no warning: most nodes of
// single-stack clusters have addresses of the other family, too.
func (r *reporter) nodePortAddrs(s *desiredState) {
	var problems []string
	for _, f := range model.Families {
		ofFamily := func(a netip.Addr) bool { return model.FamilyOf(a) == f }
		switch {
		case s.services.NodePortCount(f) == 0 || !slices.ContainsFunc(s.interfaces, ofFamily):
		case s.config.NodePorts.Primary && !s.node.Addrs[f].IsValid() && s.config.NodePorts.All(f, s.node.Addrs):
			problems = append(problems, "the node's primary address of family "+f.String()+" is not known: node ports answer "+
				"on all of them.")
		case !slices.ContainsFunc(s.nodeAddrs, ofFamily):
			problems = append(problems, "no address of family "+f.String()+" on the node is one of those that should serve "+
				"node ports.")
		}
	}
	r.ofNode(model.ProblemNodePorts, "node ports may not answer where configured", strings.Join(problems, " "))
}

// serviceRanges warns of hosts in a ServiceCIDR, and of an API server that is a Service.
func (r *reporter) serviceRanges(s *desiredState) {
	r.ofNode(model.ProblemServiceCIDR, "hosts have addresses in a ServiceCIDR", s.overlaps)
	r.ofNode(model.ProblemAPIServer, "API server is reached through a Service", s.apiServer)
}

// ofNode records a problem of the node; an empty text ends it. It logs a new one.
func (r *reporter) ofNode(reason, message, text string) {
	if text != "" && text != r.node[reason] {
		r.log.Warn(message, "reason", text) //nolint:sloglint // a constant of the caller
	}
	r.node[reason] = text
}

func (r *reporter) nodeProblems() (out []Problem) {
	for _, reason := range slices.Sorted(maps.Keys(r.node)) {
		if text := r.node[reason]; text != "" {
			out = append(out, Problem{Object{Kind: "Node", Name: r.nodeName}, reason, "", text})
		}
	}
	return out
}

// tablesOwned reports that another process owns the tables, loudly once: the owner may
// end at any time, and then nothing follows changes. The error comes from
// nft.Tables.Writable.
func (r *reporter) tablesOwned(err error) {
	level := slog.LevelError
	if r.owned {
		level = slog.LevelDebug
	}
	r.owned = true
	r.log.Log(context.Background(), level, "waiting for the owner of the tables to end", "err", err)
}

func (r *reporter) service(name model.ServiceName) Object {
	o := Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}
	if s := r.services.Service(name); s != nil {
		o.UID = s.UID
	}
	return o
}

// objectProblems are the current problems of objects.
type objectProblems map[Object]*objectProblem

type objectProblem struct {
	field    string
	text     string
	reported bool
}

// set records or removes the problem of an object. A known text is not reported again.
func (p objectProblems) set(e SetProblem) {
	if e.Err == nil {
		delete(p, e.Object)
		return
	}
	text := e.Err.Error()
	if known := p[e.Object]; known == nil || known.text != text {
		p[e.Object] = &objectProblem{field: firstField(e.Err), text: text}
	}
}

// firstField returns the field of the first validation error, if any.
func firstField(err error) string {
	if list := utilerrors.Aggregate(nil); errors.As(err, &list) {
		err = list.Errors()[0]
	}
	if e := (*field.Error)(nil); errors.As(err, &e) {
		return e.Field
	}
	return ""
}

// pending calls report for each problem that was not reported yet, in the order of the
// objects' names.
func (p objectProblems) pending(report func(o Object, text string)) {
	var objects []Object
	for o, problem := range p {
		if !problem.reported {
			objects = append(objects, o)
			problem.reported = true
		}
	}
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.UID, b.UID))
	})
	for _, o := range objects {
		report(o, p[o].text)
	}
}

// Limits of what is reported about the objects of one namespace in log lines and events.
// The excess is counted; `kube-vmap get` shows everything.
const (
	noticeBurst  = 20
	noticePeriod = 10 * time.Second // between notices after the burst
	maxNotice    = 2048             // bytes of one notice
	// maxNamespaces is how many namespaces are remembered before inactive ones are
	// forgotten.
	maxNamespaces = 1024
)

// Notices are events and log lines about objects, limited by namespace. Only one goroutine may use
// them.
type Notices struct {
	log      *slog.Logger
	recorder Recorder
	limits   noticeLimits
}

// NewNotices returns notices that go to a log and to a recorder, which may be nil.
func NewNotices(r Recorder, log *slog.Logger) *Notices {
	if r == nil {
		r = nopRecorder{}
	}
	return &Notices{log: log, recorder: r, limits: noticeLimits{}}
}

// Notify reports something about an object as an event, and returns the log for a line about it.
// Beyond the limits of the object's namespace it sends no event, and the log discards the line.
func (n *Notices) Notify(o Object, reason, note string) *slog.Logger {
	skipped, ok := n.limits.take(o.Namespace)
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	n.recorder.Warn(o, reason, note)
	if skipped > 0 {
		return n.log.With("skipped", skipped)
	}
	return n.log
}

// noticeLimits limits what is reported about objects by namespace, to keep any author
// from filling the log of every node, or displacing what others must know.
type noticeLimits map[string]*noticeLimit

// noticeLimit is the limit of one namespace.
type noticeLimit struct {
	rate.Limiter
	skipped int
}

// take reports whether one more notice about the namespace may be sent, and how many
// were skipped since the last one.
func (n noticeLimits) take(namespace string) (skipped int, ok bool) {
	known := n[namespace]
	if known == nil {
		n.forget()
		known = &noticeLimit{Limiter: *rate.NewLimiter(rate.Every(noticePeriod), noticeBurst)}
		n[namespace] = known
	}
	if !known.Allow() {
		known.skipped++
		return 0, false
	}
	skipped, known.skipped = known.skipped, 0
	return skipped, true
}

// forget removes namespaces that may send a whole burst again, if there are many.
func (n noticeLimits) forget() {
	if len(n) < maxNamespaces {
		return
	}
	maps.DeleteFunc(n, func(_ string, known *noticeLimit) bool {
		return known.skipped == 0 && known.Tokens() >= noticeBurst
	})
}
