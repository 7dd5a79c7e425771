package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	stdsync "sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/util/flowcontrol"

	"kube-vmap/sync"
)

// Reasons of events by which people know kube-proxy, and alerts may, too.
const (
	ReasonStarting      = "Starting"
	ReasonHealthServer  = "FailedToStartProxierHealthcheck"
	ReasonMetricsServer = "FailedToStartMetricServer"
)

// What else events say: who speaks, and of doing what.
const (
	reporter      = "kube-vmap"
	actionStart   = "StartKubeVmap"
	actionListen  = "Listen"
	actionProgram = "ProgramRules"
)

const (
	queueLength = 256
	maxNote     = 1024 // bytes, the API's limit
)

// Recorder is a [sync.Recorder] that makes Kubernetes events (events.k8s.io/v1).
// Those that say the same of the same object become one series.
//
// Events are worth less than anything else the proxy does: one goes out each
// second, after the first ten, and of those that wait, a few hundred are kept.
// All of it is in the log as well.
//
// What is wrong with an object by itself, every node sees, at the same moment, and
// says: five thousand nodes make of one bad Service five thousand events. So these
// wait for up to half a minute, at random, and one goes out in ten seconds, after
// the first three. They do not hold up the others.
type Recorder struct {
	client             typedeventsv1.EventsV1Interface
	node               sync.Object
	log                *slog.Logger
	local, clusterWide pacedQueue
}

// pacedQueue is a queue of events of one pace. A lane's events wait for a random time of
// up to spread, and then keep a distance: client-go makes a series of two events
// that say the same only if the API has the first when the second comes.
type pacedQueue struct {
	events   chan queuedEvent
	quota    *namespaceQuota
	interval time.Duration
	burst    int
	maxDelay time.Duration
	gap      time.Duration
}

// queuedEvent is an event and when it may go out.
type queuedEvent struct {
	*eventsv1.Event
	notBefore time.Time
}

// isClusterWide reports whether all nodes have the same reason to complain. The
// reasons are those of the loop that programs the rules.
func isClusterWide(reason string) bool {
	return reason == sync.ReasonUnusable || reason == sync.ReasonConflict || reason == sync.ReasonOpen
}

var _ sync.Recorder = (*Recorder)(nil)

// NewRecorder makes a recorder for the proxy of the node of that name. What it is
// told waits until Run.
func NewRecorder(client kubernetes.Interface, nodeName string, log *slog.Logger) *Recorder {
	return &Recorder{
		client: client.EventsV1(), node: sync.Object{Kind: "Node", Name: nodeName}, log: log,
		local: pacedQueue{events: make(chan queuedEvent, queueLength), quota: newNamespaceQuota(), interval: time.Second, burst: 10},
		clusterWide: pacedQueue{
			events: make(chan queuedEvent, queueLength), quota: newNamespaceQuota(), interval: 10 * time.Second, burst: 3,
			maxDelay: 30 * time.Second, gap: time.Second,
		},
	}
}

// Warn implements [sync.Recorder].
func (r *Recorder) Warn(o sync.Object, reason, note string) {
	action := actionProgram
	if reason == sync.ReasonHealthCheck || reason == sync.ReasonLocalhost {
		action = actionListen
	}
	r.enqueue(newEvent(o, corev1.EventTypeWarning, reason, action, note))
}

// Starting tells that the node's proxy starts.
func (r *Recorder) Starting() {
	r.enqueue(newEvent(r.node, corev1.EventTypeNormal, ReasonStarting, actionStart, ""))
}

// FailedToStart tells that the node's proxy, or a part of it, cannot start. The
// process is likely to end next, so it waits until the API has it or ctx ends.
func (r *Recorder) FailedToStart(ctx context.Context, reason, note string) error {
	e := newEvent(r.node, corev1.EventTypeWarning, reason, actionStart, note)
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name the reporter: %w", err)
	}
	now := time.Now()
	e.ObjectMeta = metav1.ObjectMeta{
		Name: util.GenerateEventName(e.Regarding.Name, now.UnixNano()), Namespace: metav1.NamespaceDefault,
	}
	e.EventTime = metav1.NewMicroTime(now)
	e.ReportingController, e.ReportingInstance = reporter, reporter+"-"+host
	if _, err := r.client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create event %s: %w", reason, err)
	}
	return nil
}

func (r *Recorder) enqueue(e *eventsv1.Event) {
	l := &r.local
	if isClusterWide(e.Reason) {
		l = &r.clusterWide
	}
	d := queuedEvent{Event: e, notBefore: time.Now()}
	if l.maxDelay > 0 {
		d.notBefore = d.notBefore.Add(rand.N(l.maxDelay))
	}
	namespace := e.Regarding.Namespace
	if l.quota.acquire(namespace) {
		select {
		case l.events <- d:
			return
		default:
			l.quota.release(namespace)
		}
	}
	r.log.Debug("an event too many", "object", e.Regarding.Kind+" "+e.Regarding.Name, "reason", e.Reason)
}

// Run sends events until ctx ends, which is no error. What waits then is lost.
func (r *Recorder) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: r.client})
	defer broadcaster.Shutdown()
	defer cancel()
	ctx = withDebugLog(ctx, r.log)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), reporter)
	var lanes stdsync.WaitGroup
	for _, l := range []*pacedQueue{&r.local, &r.clusterWide} {
		lanes.Go(func() { l.run(ctx, recorder) })
	}
	lanes.Wait()
	return nil
}

// run passes events on until ctx ends.
func (l *pacedQueue) run(ctx context.Context, to events.EventRecorder) {
	pace := flowcontrol.NewTokenBucketRateLimiter(float32(1/l.interval.Seconds()), l.burst)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-l.events:
			l.quota.release(e.Regarding.Namespace)
			waitFor(ctx, nil, time.After(time.Until(e.notBefore)))
			if pace.Wait(ctx) == nil {
				to.Eventf(&e.Regarding, nil, e.Type, e.Reason, e.Action, "%s", e.Note)
			}
			if l.gap > 0 {
				waitFor(ctx, nil, time.After(l.gap))
			}
		}
	}
}

// newEvent is what the recorder says; when and by whom is added later.
func newEvent(o sync.Object, kind, reason, action, note string) *eventsv1.Event {
	return &eventsv1.Event{
		Regarding: reference(o), Type: kind, Reason: reason, Action: action, Note: truncate(note),
	}
}

// reference is the object as events refer to it.
func reference(o sync.Object) corev1.ObjectReference {
	r := corev1.ObjectReference{
		Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID),
		APIVersion: corev1.SchemeGroupVersion.String(),
	}
	switch o.Kind {
	case "EndpointSlice":
		r.APIVersion = discoveryv1.SchemeGroupVersion.String()
	case "ServiceCIDR":
		r.APIVersion = networkingv1.SchemeGroupVersion.String()
	case "Node":
		if o.UID == "" {
			// kubectl describe finds events by a Node's UID, or by its name in that
			// place, as components had it that do not know the UID. It finds none
			// without.
			r.UID = types.UID(o.Name)
		}
	}
	return r
}

// truncate cuts a note to what the API takes, between characters.
func truncate(note string) string {
	const dots = "..."
	if len(note) <= maxNote {
		return note
	}
	end := maxNote - len(dots)
	for !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end] + dots
}
