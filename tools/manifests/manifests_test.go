// Package manifests checks the files of examples/cluster: those of Kubernetes against the types of its API, and that of Compose
// against its specification.
package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	compose "github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const folder = "../../examples/cluster/"

// checks are the files, and what a file must be.
var checks = map[string]func(text []byte) error{
	"keda.yaml":        checkScaled,
	"kubernetes.yaml":  checkKubernetes,
	"compose.yaml":     checkCompose,
	"nats-values.yaml": checkValues,
}

// checkKubernetes checks the parts of the file. The first is the DaemonSet, and the others select its pods.
func checkKubernetes(text []byte) error {
	var set apps.DaemonSet
	for n, part := range bytes.Split(text, []byte("\n---\n")) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(part, &kind); err != nil {
			return err
		}
		var selector *meta.LabelSelector
		var name string
		var err error
		switch kind.APIVersion + " " + kind.Kind {
		case "apps/v1 DaemonSet":
			err = decode(part, &set)
			name, selector = set.Name, set.Spec.Selector
			err = errors.Join(err, checkPod(&set.Spec.Template.Spec))
		case "policy/v1 PodDisruptionBudget":
			var budget policy.PodDisruptionBudget
			err = decode(part, &budget)
			name, selector = budget.Name, budget.Spec.Selector
			if (budget.Spec.MinAvailable == nil) == (budget.Spec.MaxUnavailable == nil) {
				err = errors.Join(err, errors.New("want one of minAvailable and maxUnavailable"))
			}
		case "networking.k8s.io/v1 NetworkPolicy":
			var rules networking.NetworkPolicy
			err = decode(part, &rules)
			name, selector = rules.Name, &rules.Spec.PodSelector
		default:
			return fmt.Errorf("nothing here checks a %s of %s", kind.Kind, kind.APIVersion)
		}
		if err = errors.Join(err, checkName(name)); err != nil {
			return fmt.Errorf("part %d: %w", n, err)
		}
		selects, err := meta.LabelSelectorAsSelector(selector)
		if err != nil {
			return err
		}
		if selects.Empty() || !selects.Matches(labels.Set(set.Spec.Template.Labels)) {
			return fmt.Errorf("part %d: the selector %q does not select the pods of the DaemonSet", n, selects)
		}
	}
	return nil
}

// scaled is what the file for KEDA sets. Its types are in a module with the whole of KEDA.
type scaled struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		CooldownPeriod  *int32 `json:"cooldownPeriod"`
		Triggers        []struct {
			Type     string `json:"type"`
			Metadata struct {
				Endpoint            string `json:"natsServerMonitoringEndpoint"`
				Account             string `json:"account"`
				Stream              string `json:"stream"`
				Consumer            string `json:"consumer"`
				LagThreshold        string `json:"lagThreshold"`
				ActivationThreshold string `json:"activationLagThreshold"`
			} `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

func checkScaled(text []byte) error {
	var s scaled
	if err := decode(text, &s); err != nil {
		return err
	}
	if s.TypeMeta != (meta.TypeMeta{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject"}) || len(s.Spec.Triggers) != 1 {
		return fmt.Errorf("%s %s with %d triggers", s.APIVersion, s.Kind, len(s.Spec.Triggers))
	}
	trigger := s.Spec.Triggers[0]
	_, lag := strconv.ParseUint(trigger.Metadata.LagThreshold, 10, 63)
	_, activation := strconv.ParseUint(trigger.Metadata.ActivationThreshold, 10, 63)
	if trigger.Type != "nats-jetstream" || trigger.Metadata.Endpoint == "" || trigger.Metadata.Stream == "" || trigger.Metadata.Consumer == "" {
		return fmt.Errorf("a trigger of type %q without an endpoint, a stream or a consumer: %+v", trigger.Type, trigger.Metadata)
	}
	return errors.Join(lag, activation, checkName(s.Name), checkName(s.Spec.ScaleTargetRef.Name))
}

// decode decodes YAML as the server of Kubernetes does if it is asked to be strict: a field that is not known, in this very spelling, is
// an error.
func decode(text []byte, into any) error {
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(document, into)
	return errors.Join(append(unknown, err)...)
}

func checkName(name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("the name %q: %s", name, strings.Join(wrong, ", "))
	}
	return nil
}

// checkPod checks what the types do not say: that what has to be there is there, and that names name something.
func checkPod(pod *core.PodSpec) error {
	if len(pod.Containers) == 0 {
		return errors.New("no containers")
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		if err := checkName(c.Name); err != nil || c.Image == "" {
			return errors.Join(err, fmt.Errorf("container %q with image %q", c.Name, c.Image))
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || m.MountPath == "" {
				return fmt.Errorf("no volume %q for %q", m.Name, m.MountPath)
			}
			delete(volumes, m.Name)
		}
		ports := map[string]bool{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort > 0
		}
		for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p == nil || p.HTTPGet == nil || !ports[p.HTTPGet.Port.String()] {
				return fmt.Errorf("a probe is missing, or asks another port than %v", ports)
			}
		}
	}
	if len(volumes) > 0 {
		return fmt.Errorf("volumes that nothing mounts: %v", volumes)
	}
	return nil
}

func checkCompose(text []byte) error {
	_, err := loader.LoadWithContext(context.Background(), compose.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []compose.ConfigFile{{Filename: "compose.yaml", Content: text}},
		Environment: compose.Mapping{"DATA": "/data"},
	}, func(o *loader.Options) { o.SetProjectName("cluster", true) })
	return err
}

// values are those of the chart of NATS that the file sets. The chart has no schema.
type values struct {
	Config struct {
		Cluster struct {
			Enabled  bool `json:"enabled"`
			Replicas int  `json:"replicas"`
		} `json:"cluster"`
		Monitor struct {
			Enabled bool `json:"enabled"`
		} `json:"monitor"`
		NATS struct {
			TLS struct {
				Enabled    bool   `json:"enabled"`
				SecretName string `json:"secretName"`
			} `json:"tls"`
		} `json:"nats"`
		JetStream struct {
			Enabled     bool `json:"enabled"`
			MemoryStore struct {
				Enabled bool   `json:"enabled"`
				MaxSize string `json:"maxSize"`
			} `json:"memoryStore"`
			FileStore struct {
				Enabled bool `json:"enabled"`
				PVC     struct {
					Size string `json:"size"`
				} `json:"pvc"`
			} `json:"fileStore"`
		} `json:"jetstream"`
	} `json:"config"`
	Container struct {
		Env   map[string]string `json:"env"`
		Merge struct {
			Resources core.ResourceRequirements `json:"resources"`
		} `json:"merge"`
	} `json:"container"`
	PodTemplate struct {
		TopologySpreadConstraints map[string]core.TopologySpreadConstraint `json:"topologySpreadConstraints"`
	} `json:"podTemplate"`
}

func checkValues(text []byte) error { return decode(text, new(values)) }

func TestFiles(t *testing.T) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".yaml") {
			continue
		}
		check := checks[e.Name()]
		if check == nil {
			t.Errorf("nothing checks %s", e.Name())
			continue
		}
		checked++
		if err := check(read(t, e.Name())); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	if checked != len(checks) {
		t.Errorf("%d files were checked, and there should be %d", checked, len(checks))
	}
}

// TestMistakes has the check find mistakes that somebody plants in the files.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"kubernetes.yaml", "readinessProbe:", "readynessProbe:", "readynessProbe"},
		{"kubernetes.yaml", "runAsNonRoot: true", "runAsNonroot: true", "runAsNonroot"},
		{"kubernetes.yaml", "memory: 16Gi", "memory: 16Gigs", "quantities must match"},
		{"kubernetes.yaml", "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 60s", "cannot unmarshal"},
		{"kubernetes.yaml", "kind: DaemonSet", "kind: Daemonset", "nothing here checks"},
		{"kubernetes.yaml", "matchLabels: {app.kubernetes.io/name: purecuda-worker}", "matchLabels: {app.kubernetes.io/name: worker}", "does not select"},
		{"kubernetes.yaml", "port: probes}\n            periodSeconds: 10", "port: http}\n            periodSeconds: 10", "a probe"},
		{"kubernetes.yaml", "{name: cache, mountPath: /cache}", "{name: cash, mountPath: /cache}", "no volume"},
		{"kubernetes.yaml", "image: purecuda-cluster", "# no image", "with image"},
		{"kubernetes.yaml", "name: purecuda-worker\n", "name: purecuda_worker\n", "the name"},
		{"kubernetes.yaml", "minAvailable: 1", "minAvailable: 1\n  maxUnavailable: 1", "want one of"},
		{"kubernetes.yaml", "policyTypes:", "policyTyps:", "policyTyps"},
		{"kubernetes.yaml", "podSelector:\n    matchLabels: {app.kubernetes.io/name: purecuda-worker}", "podSelector:\n    matchLabels: {app.kubernetes.io/name: worker}", "does not select"},
		{"keda.yaml", "cooldownPeriod", "coolDownPeriod", "coolDownPeriod"},
		{"keda.yaml", "consumer:", "consumers:", "consumers"},
		{"keda.yaml", `lagThreshold: "8"`, `lagThreshold: "eight"`, "eight"},
		{"keda.yaml", "kind: ScaledObject", "kind: ScaledJob", "ScaledJob"},
		{"nats-values.yaml", "monitor:", "monitoring:", "monitoring"},
		{"compose.yaml", "read_only: true", "readonly: true", "readonly"},
		{"compose.yaml", "capabilities: [gpu]", "capabilites: [gpu]", "capabilites"},
		{"compose.yaml", "depends_on: [nats]", "depends_on: [nuts]", "nuts"},
		{"compose.yaml", "stop_grace_period: 30s", "stop_grace_period: soon", "soon"},
		{"nats-values.yaml", "maxSkew: 1", "maxSkwe: 1", "maxSkwe"},
		{"nats-values.yaml", "memory: 8Gi", "memory: 8Gigs", "quantities must match"},
		{"nats-values.yaml", "jetstream:", "jetStream:", "jetStream"},
	} {
		text := string(read(t, c.file))
		if !strings.Contains(text, c.old) {
			t.Errorf("%s has no %q", c.file, c.old)
			continue
		}
		err := checks[c.file]([]byte(strings.Replace(text, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %q", c.file, c.new, err, c.want)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
