"""The bus by kombu: RabbitMQ, and what else kombu speaks to."""
