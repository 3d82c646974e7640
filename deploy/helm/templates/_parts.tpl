{{- define "portico.labels" -}}
app.kubernetes.io/name: portico
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "portico.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "portico.environment" -}}
# Anyone may write to the volume itself, so Portico makes a directory of its own in it.
- {name: PORTICO_DATA, value: /data/portico}
- {name: PORTICO_DATABASE_URL, valueFrom: {secretKeyRef: {name: {{ .Values.secret }}, key: database-url}}}
- {name: PORTICO_VALKEY_URL, valueFrom: {secretKeyRef: {name: {{ .Values.secret }}, key: valkey-url}}}
- {name: PORTICO_SECRET_KEY, valueFrom: {secretKeyRef: {name: {{ .Values.secret }}, key: secret-key}}}
- {name: PORTICO_BASE_URL, value: {{ .Values.addresses.base | default (printf "https://%s/v1" .Values.addresses.host) | quote }}}
- {name: PORTICO_SANDBOX_URL, value: {{ .Values.addresses.sandbox | default (printf "https://%s/sandbox/v1" .Values.addresses.host) | quote }}}
- {name: PORTICO_AUTH_URL, value: {{ .Values.addresses.auth | default (printf "https://%s/auth" .Values.addresses.host) | quote }}}
- {name: PORTICO_DASHBOARD_URL, value: {{ .Values.addresses.dashboard | default (printf "https://%s/dashboard" .Values.addresses.host) | quote }}}
- {name: PORTICO_TLS_CERT, value: /tls/tls.crt}
- {name: PORTICO_TLS_KEY, value: /tls/tls.key}
- {name: PORTICO_WORKERS, value: {{ .Values.workers | quote }}}
- {name: PORTICO_DRAIN_SECONDS, value: {{ .Values.drainSeconds | quote }}}
{{- with .Values.trustedProxies }}
- {name: PORTICO_TRUSTED_PROXIES, value: {{ join "," . | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- /* What YAML reads as true or false was written on or off, and a number of values.yaml is a float here. */}}
{{- if and (kindIs "bool" $value) (hasPrefix "PORTICO_" $name) }}{{ $value = ternary "on" "off" $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ $value = toJson $value }}{{ end }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- with .Values.secretSettings }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "portico.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "portico.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false   # whose variables would begin with the service's name, as settings do
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - {name: data, emptyDir: {}}
  - {name: tmp, emptyDir: {}}
  - {name: tls, secret: {secretName: {{ .Values.certificate }}, defaultMode: 0440}}
{{- end }}

{{- define "portico.mounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
