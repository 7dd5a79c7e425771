package convert

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// annotationScheduler names the scheduler of a Service; see [ParseScheduler].
const annotationScheduler = "kube-vmap.io/scheduler"

// Why a scheduler is not supported.
var (
	errNoCounts  = errors.New("random is used instead: of the schedulers that count connections, lc is supported")
	errOneForAll = errors.New("random is used instead: this scheduler would send every client of a Service to the same " +
		"endpoint")
	errUnknown = errors.New("no such scheduler, the default is used instead; supported are random, rr, sh, mh and lc")
)

// ParseScheduler returns the scheduler of that name: random, or a scheduler of IPVS
// (net/netfilter/ipvs, man ipvsadm). All schedulers honour weights, so that a weighted
// one is the same as its unweighted variant. An unsupported scheduler
// of IPVS becomes [model.SchedulerRandom], an unknown name [model.SchedulerDefault];
// the error says why. An empty name is [model.SchedulerDefault] without error.
func ParseScheduler(name string) (model.Scheduler, error) {
	switch name {
	case "":
		return model.SchedulerDefault, nil
	case "random":
		return model.SchedulerRandom, nil
	case "rr", "wrr":
		return model.SchedulerRoundRobin, nil
	case "sh":
		return model.SchedulerSourceHash, nil
	case "mh":
		return model.SchedulerMaglev, nil
	case "lc", "wlc", "sed", "nq":
		return model.SchedulerLeastConnections, nil
	case "lblc", "lblcr", "ovf", "twos":
		return model.SchedulerRandom, errNoCounts
	case "dh", "fo":
		return model.SchedulerRandom, errOneForAll
	}
	return model.SchedulerDefault, errUnknown
}

// maxTables limits the lookup tables of a Service whose annotation asks for
// [model.SchedulerMaglev]: one for each port and family, of hundreds of elements.
const maxTables = 50

// limitTables changes the scheduler of a Service to random if its lookup tables would
// take too much memory of every node.
func (f *findings) limitTables(s *model.Service) {
	if n := len(s.Ports) * len(s.ClusterIPs); s.Scheduler == model.SchedulerMaglev && n > maxTables {
		s.Scheduler = model.SchedulerRandom
		path := field.NewPath("metadata", "annotations").Key(annotationScheduler)
		f.skip(field.TooMany(path, n, maxTables))
	}
}
