package resolve

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestInitContainerThatFailsIsTheReason has a pod whose other containers wait for it.
func TestInitContainerThatFailsIsTheReason(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	p := corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "first", State: ended(0)}, {Name: "second", State: ended(7)}},
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}},
	}}
	if text := fmt.Sprint(Readiness([]corev1.Pod{p})); !strings.Contains(text, "is not ready: its init container second has ended with exit code 7") {
		t.Error(text)
	}
}
