package sync

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// A quarantine keeps what the kernel rejects from blocking everything else:
//
//   - Service ports that the kernel refused because of their content. A quarantined port is
//     not programmed; its frontends count as removed.
//   - Services whose change the kernel had no memory for. They stay as they are installed.
//
// Both are retried when the timer fires, with exponential backoff, and a port also as
// soon as its frontends change. A retried object goes into the next batch whole. It is
// released if the kernel accepts that batch, and quarantined again otherwise.
type quarantine struct {
	ports map[model.ServicePortName]*refusedPort
	// services has true for those that are being retried.
	services map[model.ServiceName]bool
	// memoryExhausted is the Service port that the kernel had no memory for in the last
	// full comparison.
	memoryExhausted model.ServicePortName

	timer   *time.Timer
	running bool // the timer
	backoff wait.Backoff
}

// refusedPort is a Service port that the kernel refused.
type refusedPort struct {
	errno    syscall.Errno
	text     string
	retrying bool
	absent   bool // nothing of it is installed
}

func newQuarantine() *quarantine {
	return &quarantine{
		ports: map[model.ServicePortName]*refusedPort{}, services: map[model.ServiceName]bool{},
		timer: stoppedTimer(), backoff: newBackoff(maxBackoff),
	}
}

// postponedText says why the change of a Service waits.
const postponedText = "no memory for its change, which is tried again"

// len returns how many Service ports and Services are in quarantine.
func (q *quarantine) len() int { return len(q.ports) + len(q.services) }

// addPort puts the Service port that an error names into quarantine. It reports whether
// this is new: the first time, or for another reason than before. A new failure resets
// the backoff.
func (q *quarantine) addPort(offender *wire.Error) (isNew bool) {
	known := q.ports[offender.Service]
	q.ports[offender.Service] = &refusedPort{errno: offender.Errno, text: offender.Error()}
	isNew = known == nil || known.errno != offender.Errno
	if isNew {
		q.stopTimer()
	}
	return isNew
}

// addService puts a Service whose change the kernel has no memory for into quarantine. It
// reports whether this is new.
func (q *quarantine) addService(name model.ServiceName) (isNew bool) {
	isNew = !q.hasService(name)
	q.services[name] = false
	return isNew
}

// hasService reports whether a Service is in quarantine, also while it is retried.
func (q *quarantine) hasService(name model.ServiceName) bool {
	_, found := q.services[name]
	return found
}

// has reports whether a Service port is in quarantine and not being retried.
func (q *quarantine) has(port model.ServicePortName) bool {
	p := q.ports[port]
	return p != nil && !p.retrying
}

func (q *quarantine) lacks(port model.ServicePortName) bool { return !q.has(port) }

// isRetrying reports whether a Service port is in quarantine and being retried.
func (q *quarantine) isRetrying(port model.ServicePortName) bool {
	p := q.ports[port]
	return p != nil && p.retrying
}

// recordMemoryExhausted notes that the kernel had no memory for a Service port when everything was
// compared. It reports whether that was so the last time, too: without the port, there
// may be enough for the others.
func (q *quarantine) recordMemoryExhausted(port model.ServicePortName) (again bool) {
	again = q.memoryExhausted == port
	q.memoryExhausted = port
	return again
}

// schedule starts the timer if there is anything to retry, unless it runs: if it were
// restarted whenever something happens, it might never fire.
func (q *quarantine) schedule() {
	switch {
	case q.len() == 0:
		q.stopTimer()
	case !q.running:
		q.running = true
		q.timer.Reset(q.backoff.Step())
	}
}

// stopTimer stops the timer and makes the next wait the shortest.
func (q *quarantine) stopTimer() {
	q.timer.Stop()
	q.running, q.backoff = false, newBackoff(maxBackoff)
}

// retryAll retries everything. It is to be called when the timer has fired.
func (q *quarantine) retryAll() {
	q.running = false
	for _, p := range q.ports {
		p.retrying = true
	}
	for name := range q.services {
		q.services[name] = true
	}
}

// retryChanged retries the Service ports whose frontends changed.
func (q *quarantine) retryChanged(changed []model.Frontend) {
	if len(q.ports) == 0 {
		return
	}
	for i := range changed {
		if p := q.ports[changed[i].Service]; p != nil {
			p.retrying = true
		}
	}
}

// release forgets the Service ports and Services that were retried, because the kernel
// accepted them, and returns the names of the ports, sorted. It has nothing of the others.
func (q *quarantine) release() []string {
	maps.DeleteFunc(q.services, func(_ model.ServiceName, retrying bool) bool { return retrying })
	var names []string
	for _, port := range q.retrying() {
		delete(q.ports, port)
		names = append(names, port.String())
	}
	for _, p := range q.ports {
		p.absent = true
	}
	slices.Sort(names)
	return names
}

// allInstalled notes that the kernel accepted everything but the quarantined ports.
func (q *quarantine) allInstalled() {
	q.memoryExhausted = model.ServicePortName{}
	clear(q.services)
}

func (q *quarantine) retrying() []model.ServicePortName {
	var ports []model.ServicePortName
	for port, p := range q.ports {
		if p.retrying {
			ports = append(ports, port)
		}
	}
	return ports
}

// problems returns everything in quarantine, in no order.
func (q *quarantine) problems(service func(model.ServiceName) Object) []Problem {
	var out []Problem
	for port, p := range q.ports {
		name := strings.TrimPrefix(port.String(), port.Namespace+"/")
		out = append(out, Problem{
			Object{Kind: "Service", Namespace: port.Namespace, Name: name},
			model.ProblemRefused, "",
			p.text,
		})
	}
	for name := range q.services {
		out = append(out, Problem{service(name), model.ProblemMemory, "", postponedText})
	}
	return out
}

// adjust returns the change without quarantined parts, and with all of the retried ones.
func (q *quarantine) adjust(c nft.Change, rules *nft.Ruleset, services *model.ServiceMap) nft.Change {
	return q.withoutPorts(q.withWholePorts(q.withServices(c, rules, services), services))
}

// withoutPorts turns frontends of quarantined Service ports into removed ones.
func (q *quarantine) withoutPorts(c nft.Change) nft.Change {
	if len(q.ports) == 0 {
		return c
	}
	out := nft.Change{Removed: slices.Clip(c.Removed), ServiceCIDRs: c.ServiceCIDRs, NodeAddrs: c.NodeAddrs}
	for _, f := range c.Set {
		if q.has(f.Service) {
			out.Removed = append(out.Removed, f.Match)
		} else {
			out.Set = append(out.Set, f)
		}
	}
	return out
}

// withWholePorts adds all frontends of retried Service ports, whose unchanged ones are not
// installed either, and of Service ports that were just refused, whose frontends are
// installed.
func (q *quarantine) withWholePorts(c nft.Change, services *model.ServiceMap) nft.Change {
	whole := map[model.ServicePortName]bool{}
	for port, p := range q.ports {
		if p.retrying || !p.absent {
			whole[port] = true
		}
	}
	if len(whole) == 0 {
		return c
	}
	c.Set = slices.DeleteFunc(slices.Clone(c.Set), func(f model.Frontend) bool { return whole[f.Service] })
	added := map[model.Match]bool{}
	for port := range whole {
		for _, f := range services.FrontendsOf(port.ServiceName) {
			if f.Service == port {
				c.Set = append(c.Set, f)
				added[f.Match] = true
			}
		}
	}
	// The Service may be quarantined, and others lose these matches already.
	c.Removed = slices.DeleteFunc(slices.Clone(c.Removed), func(m model.Match) bool { return added[m] })
	return c
}

// withServices removes the parts of quarantined Services, and adds everything of retried
// ones.
func (q *quarantine) withServices(c nft.Change, rules *nft.Ruleset, services *model.ServiceMap) nft.Change {
	if len(q.services) == 0 {
		return c
	}
	taken := q.takenFromOthers(c.Set, rules)
	in := q.hasService
	c.Set = slices.DeleteFunc(slices.Clone(c.Set), func(f model.Frontend) bool { return in(f.Service.ServiceName) })
	c.Removed = slices.DeleteFunc(slices.Clone(c.Removed), func(m model.Match) bool { return in(rules.ServiceAt(m)) })
	c.Removed = append(c.Removed, taken...)
	var names []model.ServiceName
	for name, retrying := range q.services {
		if retrying {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, model.ServiceName.Compare)
	for _, name := range names {
		c.Set = append(c.Set, services.FrontendsOf(name)...)
	}
	set := make(map[model.Match]struct{}, len(c.Set))
	for i := range c.Set {
		set[c.Set[i].Match] = struct{}{}
	}
	for _, name := range names {
		for _, m := range rules.MatchesOf(name) {
			if _, stays := set[m]; !stays {
				c.Removed = append(c.Removed, m)
			}
		}
	}
	return c
}

// takenFromOthers returns the matches that quarantined Services take from Services that are
// not: these lose them anyway, as they may be deleted.
func (q *quarantine) takenFromOthers(set []model.Frontend, rules *nft.Ruleset) (taken []model.Match) {
	for i := range set {
		retrying, known := q.services[set[i].Service.ServiceName]
		from := rules.ServiceAt(set[i].Match)
		if known && !retrying && from != (model.ServiceName{}) && !q.hasService(from) {
			taken = append(taken, set[i].Match)
		}
	}
	return taken
}
