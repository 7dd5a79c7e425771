package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/cmd/inspect/explain/answer"
)

// addCauses adds what leads to the verdict: what only the API server knows, and the hints of
// the nodes.
func (j *journey) addCauses(ctx context.Context, w *Way) error {
	if j.destination.Service != nil && w.Arrives != answer.Always && len(w.Endpoints) == 0 {
		causes, err := j.podCauses(ctx, w)
		if err != nil {
			return err
		}
		w.Causes = causes
	}
	for _, leg := range w.legs() {
		for _, hint := range leg.Answer.Hints {
			if c := (Cause{Text: hint}); !slices.ContainsFunc(w.Causes, func(o Cause) bool { return o.Text == hint }) {
				w.Causes = append(w.Causes, c)
			}
		}
	}
	return nil
}

// legs returns the answers of all nodes.
func (w *Way) legs() (out []Leg) {
	if w.Client.Answer != nil {
		out = append(out, w.Client)
	}
	for _, e := range w.Endpoints {
		if e.There != nil && e.There.Answer != nil {
			out = append(out, *e.There)
		}
	}
	return out
}

// podCauses returns why the Service has no endpoint for a packet, by its selector and pods.
func (j *journey) podCauses(ctx context.Context, w *Way) ([]Cause, error) {
	s := j.destination.Service
	object := "Service " + s.Namespace + "/" + s.Name
	if proxy := s.Labels[labelProxyName]; proxy != "" {
		return []Cause{{object, "metadata.labels[" + labelProxyName + "]: " + proxy, "another proxy is responsible for the Service"}}, nil
	}
	if len(s.Spec.Selector) == 0 || sliceHasReady(j, s) {
		return nil, nil
	}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	pods, err := j.Resolver.API.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	switch {
	case apierrors.IsForbidden(err):
		j.report.Notes = append(j.report.Notes, "pods of namespace "+s.Namespace+" are not examined: "+err.Error())
		return nil, nil
	case err != nil:
		return nil, err
	case len(pods.Items) == 0:
		return []Cause{{object, "spec.selector: " + selector.String(), "matches no pod in namespace " + s.Namespace + j.similarPods(ctx, s)}}, nil
	}
	return append(targetPortCauses(object, s, pods.Items, w), readinessCauses(pods.Items)...), nil
}

// sliceHasReady reports whether any endpoint of the Service is ready.
func sliceHasReady(j *journey, s *corev1.Service) bool {
	for _, ready := range sliceEndpoints(j.slices, s) {
		if ready {
			return true
		}
	}
	return false
}

// similarPods returns the values that pods of the namespace have for the selector's keys.
func (j *journey) similarPods(ctx context.Context, s *corev1.Service) string {
	pods, err := j.Resolver.API.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		return ""
	}
	var found []string
	for _, p := range pods.Items {
		for k := range s.Spec.Selector {
			if v, ok := p.Labels[k]; ok && v != s.Spec.Selector[k] {
				found = append(found, k+"="+v)
			}
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		return ""
	}
	return "; pods there have " + strings.Join(found[:min(len(found), maxNamed)], ", ")
}

// targetPortCauses names a target port that no container declares.
func targetPortCauses(object string, s *corev1.Service, pods []corev1.Pod, w *Way) (out []Cause) {
	for _, p := range s.Spec.Ports {
		if p.TargetPort.Type != intstr.String || !strings.HasSuffix(w.Service, ":"+p.Name) && len(s.Spec.Ports) > 1 {
			continue
		}
		var names []string
		for i := range pods {
			for _, c := range pods[i].Spec.Containers {
				for _, port := range c.Ports {
					names = append(names, port.Name)
				}
			}
		}
		if !slices.Contains(names, p.TargetPort.StrVal) {
			slices.Sort(names)
			names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
			out = append(out, Cause{
				object, "spec.ports[].targetPort: " + p.TargetPort.StrVal,
				"no container of its pods declares a port of that name; they have " + orNone(names),
			})
		}
	}
	return out
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none with a name"
	}
	return strings.Join(names, ", ")
}

// readinessCauses names pods that are not ready.
func readinessCauses(pods []corev1.Pod) (out []Cause) {
	for i := range pods {
		p := &pods[i]
		c := readyCondition(p)
		if c.Status == corev1.ConditionTrue {
			continue
		}
		if len(out) == maxNamed {
			return append(out, Cause{Text: fmt.Sprintf("and more of its %d pods", len(pods))})
		}
		probe := ""
		for _, container := range p.Spec.Containers {
			if container.ReadinessProbe != nil {
				probe = "; its readinessProbe decides that"
			}
		}
		why := strings.Trim(c.Reason+": "+c.Message, ": ")
		if why == "" {
			why = "status.phase: " + string(p.Status.Phase)
		}
		out = append(out, Cause{"Pod " + p.Namespace + "/" + p.Name, "status.conditions Ready", "is not ready: " + why + probe})
	}
	return out
}

func readyCondition(p *corev1.Pod) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c
		}
	}
	return corev1.PodCondition{}
}
