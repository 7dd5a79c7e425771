package convert

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// Keys are the labels and annotations that [Service] and [Slice] read. An object needs no others.
var Keys = append([]string{
	model.LabelServiceProxyName, LabelHeadless, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy,
	annotationScheduler, annotationPassiveChecks, annotationHold, annotationRetryRefused,
	annotationSlowStart, annotationNodes, annotationRanges, annotationDenied,
	annotationScaleToZero[0], annotationScaleToZero[1],
	annotationPriority, corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints,
}, weightAnnotations[:]...)

// annotationScheduler names the scheduler of a Service; see [ParseScheduler].
const annotationScheduler = "kube-vmap.io/scheduler"

// ParseScheduler returns the scheduler of that name: random, or a scheduler of IPVS
// (net/netfilter/ipvs, man ipvsadm). All schedulers honour weights: a weighted one is the
// same as its unweighted variant. An unsupported scheduler of IPVS becomes
// [model.SchedulerRandom], an unknown name [model.SchedulerDefault]; the error says why.
// An empty name is [model.SchedulerDefault] without error.
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
		return model.SchedulerRandom,
			errors.New("random is used instead: of the schedulers that count connections, lc is supported")
	case "dh", "fo":
		return model.SchedulerRandom,
			errors.New("random is used instead: this scheduler would send every client of a Service to the same endpoint")
	}
	return model.SchedulerDefault,
		errors.New("no such scheduler, the default is used instead; supported are random, rr, sh, mh and lc")
}

// maxTables limits the lookup tables of a Service whose annotation requests
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

// annotationPassiveChecks says what to do about unresponsive endpoints of a Service; see
// [ParsePassiveChecks].
const annotationPassiveChecks = "kube-vmap.io/passive-health-checks"

// ParsePassiveChecks returns the meaning of off, report and avoid. An empty or unknown
// value is [model.PassiveChecksDefault]; an unknown one with an error.
func ParsePassiveChecks(value string) (model.PassiveChecks, error) {
	if value == "" {
		return model.PassiveChecksDefault, nil
	}
	for _, c := range []model.PassiveChecks{
		model.PassiveChecksOff, model.PassiveChecksReport, model.PassiveChecksAvoid,
	} {
		if c.String() == value {
			return c, nil
		}
	}
	return model.PassiveChecksDefault, errors.New("must be off, report or avoid; the default is used instead")
}

// annotationHold is how long connections to a Service without an endpoint wait for one.
const annotationHold = "kube-vmap.io/hold"

var parseHold = timeWithin(time.Second, 10*time.Minute,
	`must be a duration from 1s to 10m, such as "30s"; connections are not held`)

// timeWithin returns a function that parses a time within limits; zero if it is empty, or with an error.
func timeWithin(least, most time.Duration, invalid string) func(string) (time.Duration, error) {
	return func(value string) (time.Duration, error) {
		if value == "" {
			return 0, nil
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < least || d > most {
			return 0, errors.New(invalid)
		}
		return d, nil
	}
}

// annotationSlowStart is the time after which an endpoint that joins others has its weight.
const annotationSlowStart = "kube-vmap.io/slow-start"

var parseSlowStart = timeWithin(10*time.Second, 15*time.Minute,
	`must be a duration from 10s to 15m, such as "60s"; endpoints begin with their weights`)

// checkSlowStart removes the slow start of a Service whose scheduler chooses by a hash.
func (f *findings) checkSlowStart(s *model.Service) {
	if s.SlowStart > 0 && s.Affinity == 0 && s.Scheduler.IsHash() {
		path := field.NewPath("metadata", "annotations").Key(annotationSlowStart)
		f.skip(field.Invalid(path, s.SlowStart.String(), "has no effect with scheduler "+s.Scheduler.String()))
		s.SlowStart = 0
	}
}

// annotationRetryRefused says whether connections that an endpoint refuses are retried.
const annotationRetryRefused = "kube-vmap.io/retry-refused"

func parseRetryRefused(value string) (bool, error) {
	if value == "" {
		return false, nil
	}
	return parseBool(value)
}

// annotationRanges says for which addresses source ranges count, annotationDenied has denied ones.
const (
	annotationRanges = "kube-vmap.io/source-ranges"
	annotationDenied = "kube-vmap.io/denied-source-ranges"
)

// parseRanges returns whether source ranges count for all addresses but the ClusterIPs. An unknown
// value means all, too: otherwise it could open some.
func parseRanges(value string) (bool, error) {
	if value != "" && value != "all" {
		return true, errors.New(`must be "all", which is used instead`)
	}
	return value != "", nil
}

// annotationNodes is a label selector: which nodes serve a Service at all but its ClusterIPs.
const annotationNodes = "kube-vmap.io/nodes"

// maxNodeSelector limits the bytes of a selector.
const maxNodeSelector = 1024

var errNodes = errors.New("no node serves its external addresses and node ports")

// parseNodes returns the nodes that a label selector selects; with an error none: to ignore the
// selector could open addresses on nodes that it excludes.
func parseNodes(value string) (model.NodeSelector, error) {
	none := model.NodeSelector{{}}
	if len(value) > maxNodeSelector {
		return none, fmt.Errorf("%w: a selector has at most %d bytes", errNodes, maxNodeSelector)
	}
	requirements, err := labels.ParseToRequirements(value)
	if err != nil {
		return none, fmt.Errorf("%w: %w", errNodes, err)
	}
	var out model.NodeSelector
	for _, r := range requirements {
		names := r.Values().UnsortedList()
		for i, label := range names {
			names[i] = r.Key() + "=" + label
		}
		if len(names) == 0 {
			names = []string{r.Key()}
		}
		var term model.NodeTerm
		switch r.Operator() {
		case selection.GreaterThan, selection.LessThan:
			return none, fmt.Errorf("%w: < and > are not supported", errNodes)
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
			term.Not = true
		}
		term.Labels = model.NameSetOf(names...)
		out = append(out, term)
	}
	return out, nil
}

// AnnotationScaleToZero says whether a program outside decides by the demand for a Service whether it
// has endpoints.
const AnnotationScaleToZero = "kube-vmap.io/scale-to-zero"

// annotationScaleToZero are the names, of which the first one that is set counts. The second one is
// Cilium's.
var annotationScaleToZero = [...]string{AnnotationScaleToZero, "service.cilium.io/scale-to-zero"}

// defaultHold is the hold of a Service that scales to zero, which would never see a client otherwise.
const defaultHold = time.Minute

// scaleToZero sets ScaleToZero, and a hold.
func (f *findings) scaleToZero(s *model.Service, annotations map[string]string) {
	for _, name := range annotationScaleToZero {
		if _, found := annotations[name]; !found {
			continue
		}
		s.ScaleToZero = annotation(f, annotations, name, parseBool)
		if s.ScaleToZero && s.Hold == 0 {
			s.Hold = defaultHold
		}
		return
	}
}

// ScalesToZero reports whether the annotations of a Service say that it scales to zero.
func ScalesToZero(annotations map[string]string) bool {
	var s model.Service
	new(findings).scaleToZero(&s, annotations)
	return s.ScaleToZero
}

func parseBool(value string) (bool, error) {
	switch value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New(`must be "true" or "false"; false is used instead`)
}

// weightAnnotations give the endpoints of an EndpointSlice a weight. The first one that is set
// counts. The second one is Cilium 1.20's: a cluster that used it keeps its weights.
var weightAnnotations = [...]string{"kube-vmap.io/weight", "service.cilium.io/weight"}

// weight sets the weight of a slice's endpoints. A bad value is ignored: to drain or prefer
// endpoints by mistake would be worse.
func (f *findings) weight(s *model.EndpointSlice, annotations map[string]string) {
	for _, name := range weightAnnotations {
		text, found := annotations[name]
		if !found {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			path := field.NewPath("metadata", "annotations").Key(name)
			f.skip(field.Invalid(path, text, "must be a number from 0 to 65535; 1 is used instead"))
			return
		}
		s.Weight, s.Drained = uint16(n), n == 0
		return
	}
}

// annotationPriority is the priority of the endpoints of an EndpointSlice.
const annotationPriority = "kube-vmap.io/priority"

// priority sets the priority of a slice's endpoints. With a bad value they stand by: two primaries
// that serve by mistake would be worse.
func (f *findings) priority(s *model.EndpointSlice, annotations map[string]string) {
	text, found := annotations[annotationPriority]
	if !found {
		return
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > model.MaxPriority {
		path := field.NewPath("metadata", "annotations").Key(annotationPriority)
		f.skip(field.Invalid(path, text, "must be a number from 0, the best, to 9, which is used instead"))
		n = model.MaxPriority
	}
	s.Priority = uint8(n)
}
